-- Turns of a queue whose keys take none any more. In: queue. Index: all of the queue's.
delete from punctual_limit_fairness where queue = ?1
