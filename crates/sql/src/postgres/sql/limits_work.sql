-- Which limits may let something through. In: queues, lanes of jobs with keys; lanes of limited queues, and for each the
-- time and the id before which nothing is expected. Out: 0, the number of a queue and when the first of its keys is to be looked at; 1 and the
-- number of a lane in which something stands, the lanes counted together. Index: one step in an index for each.
select 0, q.i, m.at from unnest($1::text[]) with ordinality q (queue, i) cross join lateral (
    select m.at from punctual_limit_wakeups m where m.queue = q.queue order by m.at limit 1) m
union all
select 1, k.i, null from unnest($2::int4[]) with ordinality k (lane, i) cross join lateral (
    select h.id from punctual_limit_heads h where h.lane = k.lane limit 1) h
union all
select 1, cardinality($2::int4[]) + k.i, null
from unnest($3::int4[], $4::timestamptz[], $5::uuid[]) with ordinality k (lane, low, low_id, i) cross join lateral (
    select r.id from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id) order by r.run_at, r.id limit 1) r
