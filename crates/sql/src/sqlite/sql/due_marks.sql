-- The keys of a queue that are to be looked at now. In: queue, now, how many. Out: time, key. Index: the head of a range of the primary key.
select at, key from punctual_limit_wakeups where queue = ?1 and at <= ?2 order by at, key limit ?3
