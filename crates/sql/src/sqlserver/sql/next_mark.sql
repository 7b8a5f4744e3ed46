-- When the next key of a queue is to be looked at. In: queue, after when. Index: one step in the primary key.
select min(at) from punctual_limit_wakeups where queue = @P1 and at > @P2
