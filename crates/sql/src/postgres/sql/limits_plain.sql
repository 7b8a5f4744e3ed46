-- The first queued jobs of lanes without keys. In: lanes, for each the time and the id before which nothing is expected, how many of each.
-- Out: lane, run_at, id. Index: the head of a range of the primary key for each.
select k.lane, r.run_at, r.id from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) k (lane, low, low_id) cross join lateral (
    select r.run_at, r.id from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id)
    order by r.run_at, r.id limit $4::int8) r
