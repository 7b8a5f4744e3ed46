-- name: job
-- A job. In: id, scheduled_at. Index: the whole primary key of one partition, then that of punctual_running.
select {columns_now} from {jobs} j left join punctual_running r on r.id = j.id where j.scheduled_at = $2::timestamptz and j.id = $1::uuid

-- name: jobs
-- Jobs, in any order. In: ids, scheduled_ats. Index: as for one.
select {columns_now} from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id

-- name: known_jobs
-- Which of some ids exist. In: ids, scheduled_ats. Index: the whole primary key.
select j.id from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select j.id from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j

-- name: job_states
-- The states of jobs. In: ids, scheduled_ats. Index: the whole primary key, then that of punctual_running.
select j.id, case when r.id is null then j.status else 'processing' end, coalesce(r.run, j.run), j.run_at, j.lane, j.finished_at
from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id

-- name: update_job
-- Changes a job on behalf of another enqueue. Its row is locked. In: the time (or null), id, scheduled_at, payload (or null), run_at (or
-- null), the time of its last change, the detail of the event, run_at before the change. Index: primary keys.
with updated_jobs as (
    update punctual_jobs j set payload = coalesce($4::text, j.payload), run_at = coalesce($5::timestamptz, j.run_at), updated_at = {now},
        events = j.events + 1
    where j.scheduled_at = $3::timestamptz and j.id = $2::uuid
    returning j.id, j.lane, j.run_at, j.status, j.events),
updated_ready as (
    update punctual_ready r set payload = null, dispatched = false, queued_at = {now}, events = updated_jobs.events
    from updated_jobs where r.lane = updated_jobs.lane and r.run_at = updated_jobs.run_at and r.id = updated_jobs.id and updated_jobs.status = 'queued'),
updated_due as (
    update punctual_due d set run_at = updated_jobs.run_at, since = {now}, dispatched = false
    from updated_jobs where d.run_at = $8::timestamptz and d.id = updated_jobs.id and updated_jobs.status in ('scheduled', 'retrying')),
updated_waiting as (update punctual_waiting w set since = {now} from updated_jobs where w.id = updated_jobs.id)
insert into punctual_events (job_id, n, at, previous_at, status, detail)
select id, events, {now}, $6::timestamptz, status, $7::text from updated_jobs

-- name: set_retention
-- Changes how long a finished job is kept. In: id, scheduled_at, the milliseconds after its end before the change (or null), and after it.
-- Index: primary keys.
with updated_jobs as (
    update punctual_jobs set keep_for_ms = $4::int8 where scheduled_at = $2::timestamptz and id = $1::uuid returning id, finished_at),
deleted_expiries as (delete from punctual_expiries k using updated_jobs where k.expires_at = updated_jobs.finished_at + $3::int8 * interval '1 millisecond' and k.id = updated_jobs.id)
insert into punctual_expiries (expires_at, id) select finished_at + $4::int8 * interval '1 millisecond', id from updated_jobs

-- name: results
-- The results of jobs that have one. In: ids, scheduled_ats. Index: the whole primary key.
select j.id, j.result from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select j.id, j.result from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
where j.result is not null

-- name: delete_jobs
-- Deletes jobs that are not running, with all rows that belong to them. In: ids, scheduled_ats. Out: the count.
-- Index: primary keys, and punctual_events_final from each job's last event backwards.
with recursive given as materialized (select * from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)),
deleted_jobs as (
    delete from punctual_jobs j using given where j.scheduled_at = given.scheduled_at and j.id = given.id returning j.*),
story (id, at) as (
    select j.id, j.updated_at from punctual_jobs j join given on j.scheduled_at = given.scheduled_at and j.id = given.id
    union
    select s.id, e.previous_at from story s join punctual_events e on {any_end} and e.at = s.at and e.job_id = s.id where e.previous_at is not null),
deleted_events as (delete from punctual_events e using story s where {any_end} and e.at = s.at and e.job_id = s.id),
deleted_logs as (delete from punctual_logs g using deleted_jobs where g.job_id = deleted_jobs.id),
deleted_labels as (
    delete from punctual_labels l using (
        select 'user' as kind, user_id as value, scheduled_at, id from deleted_jobs where user_id is not null
        union all
        select 'correlation', correlation_id, scheduled_at, id from deleted_jobs where correlation_id is not null
        union all
        select 'tag', tag, scheduled_at, id from deleted_jobs, json_array_elements_text(deleted_jobs.options::json -> 'tags') tag where options is not null
        union all
        select 'schedule', options::json #>> '{occurrence,schedule}', scheduled_at, id from deleted_jobs
        where options::json #>> '{occurrence,schedule}' is not null) x
    where l.kind = x.kind and l.value = x.value and l.scheduled_at = x.scheduled_at and l.id = x.id),
deleted_ready as (delete from punctual_ready r using deleted_jobs where r.lane = deleted_jobs.lane and r.run_at = deleted_jobs.run_at and r.id = deleted_jobs.id),
inserted_limit_wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, updated_at, {key} from deleted_jobs where status = 'queued' and {key} is not null),
deleted_due as (delete from punctual_due d using deleted_jobs where d.run_at = deleted_jobs.run_at and d.id = deleted_jobs.id),
deleted_waiting as (delete from punctual_waiting w using deleted_jobs where w.id = deleted_jobs.id),
deleted_dependencies as (delete from punctual_dependencies d using given where d.parent = given.id),
deleted_dependents as (delete from punctual_dependencies d using given where d.child = given.id and not exists (select from given p where p.id = d.parent)),
deleted_nodes as (delete from punctual_nodes n using given where n.job_id = given.id),
deleted_keys as (delete from punctual_keys k using deleted_jobs where deleted_jobs.unique_key is not null and k.job_id = deleted_jobs.id),
deleted_deleted as (delete from punctual_deleted x using deleted_jobs where deleted_jobs.status = 'deleted' and x.deleted_at = deleted_jobs.updated_at and x.id = deleted_jobs.id),
deleted_expiries as (
    delete from punctual_expiries x using deleted_jobs
    where x.expires_at = deleted_jobs.finished_at + deleted_jobs.keep_for_ms * interval '1 millisecond' and x.id = deleted_jobs.id),
deleted_ephemeral as (delete from punctual_ephemeral f using deleted_jobs where f.id = deleted_jobs.id),
inserted_counts as (
    insert into punctual_counts_new (lane, status, n) select lane, status, -count(*) from deleted_jobs group by lane, status),
inserted_pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, -count(*) from deleted_jobs where user_id is not null and finished_at is null group by user_id, name)
select count(*) from deleted_jobs
