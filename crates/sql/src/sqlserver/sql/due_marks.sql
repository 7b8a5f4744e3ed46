-- The keys of a queue that are to be looked at now. In: queue, now, how many. Out: time, key. Index: the head of a range of the primary key.
select top (@P3) at, [key] from punctual_limit_wakeups where queue = @P1 and at <= @P2 order by at, hash
