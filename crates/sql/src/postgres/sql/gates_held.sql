-- How many jobs of keys are held. In: queues, keys. Out: the number of a key, and how many; nothing if none is.
-- Index: punctual_running_gate. Not as a join, for which a plan that was made while nothing ran would read all of it for each key.
select u.i, count(*) from unnest($1::text[], $2::text[]) with ordinality u (queue, key, i) cross join lateral (
    select r.lane from punctual_running r where r.gate = any (array[u.key]) and r.gate is not null offset 0) r cross join lateral (
    select n.queue from punctual_lanes n where n.lane = r.lane limit 1) n
where n.queue = u.queue group by u.i
