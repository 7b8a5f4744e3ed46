-- The places that claim.sql takes, of several lanes.
k as materialized (
    select * from unnest($2::int4[], $3::timestamptz[], $4::uuid[], $10::int4[]) as u (lane, low, low_id, rank)
    where {queues_revision} = $9::int8),
-- Which lanes the first jobs stand in, without a lock.
h as materialized (
    select k.lane from k cross join lateral (
        select r.run_at, r.id from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id)
        order by r.run_at, r.id limit $5::int8) s
    order by k.rank, s.run_at, s.id limit $5::int8),
q as materialized (select lane, count(*) as n from h group by lane),
-- So many of each lane, without those that another claim has in hand.
c as materialized (
    select s.place from q cross join lateral (select * from k where k.lane = q.lane limit 1) k cross join lateral (
        select r.ctid as place from punctual_ready r where r.lane = k.lane and (r.run_at, r.id) >= (k.low, k.low_id)
        order by r.run_at, r.id limit q.n for update skip locked) s)
