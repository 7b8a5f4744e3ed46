-- name: lanes
-- All lanes that were ever in use. Reads the whole table: one row for each queue, name and priority, without and with keys.
select lane, queue, name, priority, keyed from punctual_lanes

-- name: insert_lanes
-- Stores new lanes. In: queues, names, priorities, whether their jobs have keys.
insert into punctual_lanes (queue, name, priority, keyed)
select distinct queue, name, priority, keyed from unnest($1::text[], $2::text[], $3::int2[], $4::bool[]) u (queue, name, priority, keyed)
order by queue, name, priority, keyed
on conflict do nothing
