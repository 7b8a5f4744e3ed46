-- Starts of a queue that no rate counts any more. In: queue, up to when. Index: all of the queue's.
delete from punctual_limit_starts where queue = ?1 and at <= ?2
