-- How many jobs of keys are held, and how many of their slots cancelled ones occupy. In: queues, keys, the time. Out: the number of a key, and how many;
-- nothing if none is.
-- Index: punctual_running_limit_key, punctual_occupied_slots_limit_key. Not as a join, for which a plan that was made while nothing ran would read all of it for each key.
select u.i, count(*) from unnest($1::text[], $2::text[]) with ordinality u (queue, key, i) cross join lateral (
    select n.queue from (
        select r.lane from punctual_running r where r.limit_key = any (array[u.key]) and r.limit_key is not null offset 0) r cross join lateral (
        select n.queue from punctual_lanes n where n.lane = r.lane limit 1) n
    where n.queue = u.queue
    union all
    select s.queue from punctual_occupied_slots s where s.queue = u.queue and s.limit_key = u.key and s.lease_until > $3::timestamptz) h
group by u.i
