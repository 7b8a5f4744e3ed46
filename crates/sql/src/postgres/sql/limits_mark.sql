-- Keys that have anything queued are to be looked at from a time on, once. In: queues, times, keys. Out: those times.
-- Index: the head of a range of punctual_ready_limit_key for each lane.
with m as materialized (
    select u.queue, u.at, u.key from unnest($1::text[], $2::timestamptz[], $3::text[]) u (queue, at, key)
    where exists (
        select from punctual_lanes n cross join lateral (
            select r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -n.lane limit 1) r
        where n.queue = u.queue and n.keyed)),
i as (
    insert into punctual_limit_wakeups (queue, at, key)
    select * from m where not exists (select from punctual_limit_wakeups o where o.queue = m.queue and o.at = m.at and o.key = m.key))
select at from m
