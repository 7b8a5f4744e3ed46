-- The places that claim.sql takes, if they were chosen before: lanes, times and ids of jobs. In besides: the lanes whose queues are limited.
c as materialized (
    select s.place from unnest($2::int4[], $3::timestamptz[], $4::uuid[]) as k (lane, run_at, id) cross join lateral (
        select r.ctid as place from punctual_ready r where r.lane = k.lane and r.run_at = k.run_at and r.id = k.id
        limit $5::int8 for update skip locked) s
    where {queues_revision} = $9::int8)
