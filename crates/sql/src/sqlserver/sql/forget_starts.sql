-- Starts that no rate counts any more. In: queue, key, up to when. Index: a range of the primary key.
delete from punctual_starts where queue = @P1 and hash = hashbytes('sha2_256', @P2) and at <= @P3
