-- Starts that no rate counts any more. In: queue, key, up to when. Index: a range of the primary key.
delete from punctual_starts where queue = @P1 and [key] = @P2 and at <= @P3
