-- Starts of a queue that are counted as later than now. In: queue, now. Out: key, how many. Index: all of the queue's.
select key, sum(n) from punctual_limit_starts where queue = ?1 and at > ?2 group by key
