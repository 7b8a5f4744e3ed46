-- Moves a job from where it stood to where it stands now, with one event. Its place in ready or due has gone already.
-- In: the job's columns before and after, see change.rs. Index: primary keys.
with o as materialized (select $1::uuid as id, $2::timestamptz as scheduled_at, $3::timestamptz as now),
h as (delete from punctual_running r using o where r.id = o.id returning r.*),
y as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', o.now, 'UTC'), h.lane, 'cancelled',
        width_bucket(round(greatest(0, date_part('epoch', o.now - h.started_at)) * 1000000), {buckets}), 1
    from h, o),
j as (
    update punctual_jobs j set status = $4::text, run_at = $5::timestamptz, attempt = $6::int4, run = $7::int4, max_attempts = $8::int4,
        updated_at = o.now, waiting_on = $19::int4, started_at = $9::timestamptz, finished_at = $10::timestamptz, events = $11::int4 + 1
    from o where j.scheduled_at = o.scheduled_at and j.id = o.id
    returning j.*),
r as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select run_at, id, updated_at, lane, attempt, run, events, keep_for_ms, user_id, flow, {key} from j where status = 'queued'),
m as (
    insert into punctual_limit_wakeups (queue, at, key)
    select queue, updated_at, {key} from j
    where {key} is not null and (status = 'queued' or $16::text in ('queued', 'processing'))),
-- If its execution is limited, it keeps its slot until its handler is gone, or its lease ends: then claims look at its key.
s as (
    insert into punctual_occupied_slots (job_id, run, worker_id, queue, limit_key, lease_until)
    select h.id, h.run, h.worker_id, j.queue, h.limit_key, h.lease_until from h join j on j.id = h.id
    where h.limit_key is not null and h.lease_until > j.updated_at
    on conflict do nothing returning queue, lease_until, limit_key),
m2 as (insert into punctual_limit_wakeups (queue, at, key) select * from s),
e as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome, actor,
        detail)
    select o.id, $11::int4 + 1, o.now, coalesce(h.queued_at, $12::timestamptz), h.started_at, j.lane, $13::int4, h.attempt,
        h.worker_id, case $4::text when 'cancelled' then 2 else 0 end, $4::text,
        case when h.id is not null then 'cancelled' end, $14::text, $15::text
    from o cross join j left join h on true),
k as (
    delete from punctual_keys k using j
    where $4::text in ('cancelled', 'deleted') and j.unique_key is not null and k.job_id = j.id),
x1 as (
    update punctual_events e set final = 0 from o
    where e.at = $17::timestamptz and e.job_id = o.id and e.final in (1, 2, 3)),
x2 as (
    insert into punctual_deleted (deleted_at, id, finished_at) select updated_at, id, finished_at from j where status = 'deleted'),
w as (delete from punctual_waiting w using o where w.id = o.id),
n as (
    insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
    select workflow_id, o.now, $20::int4, $21::int4, $22::int4 from j, o
    where workflow_id is not null and exists (select from punctual_nodes n where n.job_id = j.id) and ($20::int4, $21::int4, $22::int4) <> (0, 0, 0)),
k1 as (
    delete from punctual_expiries d using j
    where d.expires_at = $17::timestamptz + j.keep_for_ms * interval '1 millisecond' and d.id = j.id),
k2 as (
    insert into punctual_expiries (expires_at, id)
    select finished_at + keep_for_ms * interval '1 millisecond', id from j
    where status = 'cancelled' and keep_for_ms is not null),
c as (
    insert into punctual_counts_new (lane, status, n)
    select lane, s.status, s.n from j, (values ($16::text, -1), ($4::text, 1)) s (status, n)),
p as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, $18::int8 from j where user_id is not null and $18::int8 <> 0)
select 1
