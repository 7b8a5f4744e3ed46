-- name: change_hold_running
-- Locks the executions of jobs against settles, in the order of ids. In: ids. Index: primary key.
select r.id from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_running r where r.id = u.id for update) r

-- name: change_hold_ready
-- Locks the rows of queued jobs against claims. In: lanes, run_ats, ids. Index: the whole primary key.
select r.id from unnest($1::int4[], $2::timestamptz[], $3::uuid[]) u (lane, run_at, id)
cross join lateral (
    select id from punctual_ready r where r.lane = u.lane and r.run_at = u.run_at and r.id = u.id for update) r

-- name: change_hold_due
-- Locks the rows of scheduled and retrying jobs against promotion. In: run_ats, ids. Index: the whole primary key.
select d.id from unnest($1::timestamptz[], $2::uuid[]) u (run_at, id)
cross join lateral (select id from punctual_due d where d.run_at = u.run_at and d.id = u.id for update) d

-- name: change_hold_jobs
-- Locks jobs, in the order of ids. In: ids, scheduled_ats. Index: the whole primary key.
select j.id from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select id from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id for update) j

-- name: change_leave_ready
-- Removes a job from its lane. In: lane, run_at, id. Rows changed: 1 if it existed. Index: the whole primary key.
delete from punctual_ready where lane = $1::int4 and run_at = $2::timestamptz and id = $3::uuid

-- name: change_leave_due
-- Removes a job from the due jobs. In: run_at, id. Rows changed: 1 if it existed. Index: the whole primary key.
delete from punctual_due where run_at = $1::timestamptz and id = $2::uuid

-- name: change_save
-- Moves a job from one state to another, with one event. Its row in punctual_ready or punctual_due has already been deleted.
-- In: the job's columns before and after, see change.rs. Index: primary keys.
with job as materialized (select $1::uuid as id, $2::timestamptz as scheduled_at, $3::timestamptz as now),
deleted_running as (delete from punctual_running r using job where r.id = job.id returning r.*),
inserted_rollups as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', job.now, 'UTC'), deleted_running.lane, 'cancelled',
        width_bucket(round(greatest(0, date_part('epoch', job.now - deleted_running.started_at)) * 1000000), {buckets}), 1
    from deleted_running, job),
updated_jobs as (
    update punctual_jobs j set status = $4::text, run_at = $5::timestamptz, attempt = $6::int4, run = $7::int4, max_attempts = $8::int4,
        updated_at = job.now, waiting_on = $19::int4, started_at = $9::timestamptz, finished_at = $10::timestamptz, events = $11::int4 + 1
    from job where j.scheduled_at = job.scheduled_at and j.id = job.id
    returning j.*),
inserted_ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select run_at, id, updated_at, lane, attempt, run, events, keep_for_ms, user_id, flow, {key} from updated_jobs where status = 'queued'),
inserted_limit_wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select queue, updated_at, {key} from updated_jobs
    where {key} is not null and (status = 'queued' or $16::text in ('queued', 'processing'))),
-- If its execution is limited, it keeps its slot until its handler has ended or its lease expires: then claims check its key.
inserted_occupied_slots as (
    insert into punctual_occupied_slots (job_id, run, worker_id, queue, limit_key, lease_until)
    select deleted_running.id, deleted_running.run, deleted_running.worker_id, updated_jobs.queue, deleted_running.limit_key, deleted_running.lease_until from deleted_running join updated_jobs on updated_jobs.id = deleted_running.id
    where deleted_running.limit_key is not null and deleted_running.lease_until > updated_jobs.updated_at
    on conflict do nothing returning queue, lease_until, limit_key),
woken_keys as (insert into punctual_limit_wakeups (queue, at, key) select * from inserted_occupied_slots),
inserted_events as (
    insert into punctual_events (job_id, n, at, previous_at, started_at, lane, run, attempt, worker_id, final, status, outcome, actor,
        detail)
    select job.id, $11::int4 + 1, job.now, coalesce(deleted_running.queued_at, $12::timestamptz), deleted_running.started_at, updated_jobs.lane, $13::int4, deleted_running.attempt,
        deleted_running.worker_id, case $4::text when 'cancelled' then 2 else 0 end, $4::text,
        case when deleted_running.id is not null then 'cancelled' end, $14::text, $15::text
    from job cross join updated_jobs left join deleted_running on true),
deleted_keys as (
    delete from punctual_keys k using updated_jobs
    where $4::text in ('cancelled', 'deleted') and updated_jobs.unique_key is not null and k.job_id = updated_jobs.id),
updated_events as (
    update punctual_events e set final = 0 from job
    where e.at = $17::timestamptz and e.job_id = job.id and e.final in (1, 2, 3)),
inserted_deleted as (
    insert into punctual_deleted (deleted_at, id, finished_at) select updated_at, id, finished_at from updated_jobs where status = 'deleted'),
deleted_waiting as (delete from punctual_waiting w using job where w.id = job.id),
inserted_ends_pending as (
    insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
    select workflow_id, job.now, $20::int4, $21::int4, $22::int4 from updated_jobs, job
    where workflow_id is not null and exists (select from punctual_nodes n where n.job_id = updated_jobs.id) and ($20::int4, $21::int4, $22::int4) <> (0, 0, 0)),
deleted_expiries as (
    delete from punctual_expiries d using updated_jobs
    where d.expires_at = $17::timestamptz + updated_jobs.keep_for_ms * interval '1 millisecond' and d.id = updated_jobs.id),
inserted_expiries as (
    insert into punctual_expiries (expires_at, id)
    select finished_at + keep_for_ms * interval '1 millisecond', id from updated_jobs
    where status = 'cancelled' and keep_for_ms is not null),
inserted_counts as (
    insert into punctual_counts_new (lane, status, n)
    select lane, s.status, s.n from updated_jobs, (values ($16::text, -1), ($4::text, 1)) s (status, n)),
inserted_pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, $18::int8 from updated_jobs where user_id is not null and $18::int8 <> 0)
select 1
