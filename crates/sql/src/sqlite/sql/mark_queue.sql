-- All keys of a queue that have anything queued are to be looked at. In: queue. Index: a range of the primary key.
insert or ignore into punctual_limit_wakeups (queue, at, key) select queue, 0, key from punctual_keyed where queue = ?1 group by queue, key
