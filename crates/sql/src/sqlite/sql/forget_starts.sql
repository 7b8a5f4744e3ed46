-- Starts that no rate counts any more. In: queue, key, up to when. Index: a range of the primary key.
delete from punctual_limit_starts where queue = ?1 and key = ?2 and at <= ?3
