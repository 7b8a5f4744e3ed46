-- The first queued jobs of keys. In: numbers of keys, keys, lanes, how many of each. Out: the number, lane, run_at, id.
-- Index: the head of a range of punctual_ready_limit_key for each.
select u.i, u.lane, r.run_at, r.id from unnest($1::int4[], $2::text[], $3::int4[], $4::int8[]) u (i, key, lane, n) cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.limit_key = u.key and -r.lane = -u.lane order by r.run_at, r.id limit u.n) r
