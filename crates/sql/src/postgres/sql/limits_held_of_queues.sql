-- How many jobs of queues are held, and how many of their slots cancelled ones occupy. In: queues, the time. Out: queue, how many.
-- Reads all that is held, which is as much as all workers run. Index: a range of punctual_occupied_slots_limit_key for each queue.
select h.queue, count(*) from (
    select n.queue from punctual_running r cross join lateral (select queue from punctual_lanes n where n.lane = r.lane limit 1) n
    where n.queue = any ($1::text[])
    union all
    select s.queue from punctual_occupied_slots s where s.queue = any ($1::text[]) and s.lease_until > $2::timestamptz) h
group by h.queue
