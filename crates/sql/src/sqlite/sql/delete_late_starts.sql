-- In: queue, now. Index: all of the queue's.
delete from punctual_limit_starts where queue = ?1 and at > ?2
