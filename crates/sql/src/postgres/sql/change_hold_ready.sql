-- Holds queued jobs' places against claims. In: lanes, run_ats, ids. Index: the whole primary key.
select r.id from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) u (lane, run_at, id)
cross join lateral (
    select id from punctual_ready r where r.lane = u.lane and r.run_at = u.run_at and r.id = u.id for update) r
