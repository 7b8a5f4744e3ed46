-- The keys that are to be looked at now. In: now, how many. Out: time, queue, key. Index: the head of the primary key.
select at, queue, key from punctual_marks where at <= ?1 order by at, queue, key limit ?2
