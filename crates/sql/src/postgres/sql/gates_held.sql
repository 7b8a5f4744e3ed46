-- How many jobs of keys are held. In: queues, keys. Out: the number of a key, and how many; nothing if none is.
-- Index: punctual_running_gate.
select u.i, count(*) from unnest($1::text[], $2::text[]) with ordinality u (queue, key, i)
join punctual_lanes n on n.queue = u.queue and n.keyed cross join lateral (
    select r.id from punctual_running r where r.gate = u.key and r.lane = n.lane) r
group by u.i
