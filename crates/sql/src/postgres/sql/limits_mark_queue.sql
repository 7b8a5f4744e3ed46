-- All keys of a queue that have anything queued are to be looked at. In: the time (or null), the queue.
-- Index: each lane's range of punctual_ready, whole.
insert into punctual_limit_wakeups (queue, at, key)
select distinct n.queue, {now}, r.limit_key from punctual_lanes n join punctual_ready r on r.lane = n.lane
where n.queue = $2::text and n.keyed and r.limit_key is not null
