-- name: events
-- The stored events of jobs within one partition. In: ids, for each the time of its last event there.
-- Index: punctual_events_final, one time after the other; lateral, or the server would search for a job at all times at once.
with recursive history (job_id, at) as (
    select * from unnest($1::uuid[], $2::timestamptz[])
    union
    select h.job_id, e.previous_at from history h cross join lateral (
        select e.previous_at from {events} e where {any_end} and e.at = h.at and e.job_id = h.job_id offset 0) e
    where e.previous_at is not null)
select e.n, e.at, e.status, e.run, e.actor, e.detail, e.attempt, e.outcome, e.worker_id, e.started_at, e.error, e.previous_at,
    e.job_id
from history h cross join lateral (select * from {events} e where {any_end} and e.at = h.at and e.job_id = h.job_id offset 0) e
order by e.job_id, e.n

-- name: changes
-- Changes that became visible between two snapshots, in the order of time.
-- In: the earliest time that they may have; the times of the earlier and of the later snapshot; for each snapshot its upper bound of
-- transaction ids and the open transactions; the limit. Out: stored events; starts of executions that are running; the initial queued
-- events of jobs that have not changed since.
-- Index: punctual_events_final, one range for each value of final; a range of the jobs' primary key. Reads punctual_running whole.
with parts as materialized (
    select l.xmin::text::int8 as part, l.began, {new:l} as is_new from punctual_late_commits l where l.written >= $1::timestamptz),
late as materialized (select distinct part, began from parts where is_new),
found as (
    select e.* from unnest('{0, 1, 2, 3}'::int2[]) f (final) cross join lateral (
        select e.job_id, e.n, e.at, e.status, e.run, e.actor, e.detail from punctual_events e
        where e.final = f.final and e.at >= $1::timestamptz and {new:e} and {standing}
            and e.xmin::text::int8 <> all (array(select part from parts))
        order by e.at, e.job_id limit $8::int8) e
    union all
    select e.* from late cross join lateral (
        select e.job_id, e.n, e.at, e.status, e.run, e.actor, e.detail from punctual_events e
        where {any_end} and e.at = late.began and e.xmin::text::int8 = late.part and {standing} limit $8::int8) e
    union all
    -- Starts only: an execution whose lease was extended has an earlier start.
    select r.id, r.events, r.started_at, 'processing', r.run, null, null from punctual_running r
    where r.started_at >= $2::timestamptz - interval '500 milliseconds' and {new:r}
    union all
    select * from (
        select j.id, 1, j.created_at, 'queued', null::int4, null, null from punctual_jobs j
        where j.scheduled_at >= $1::timestamptz - interval '1 second' and j.scheduled_at <= $3::timestamptz + interval '1 second'
            and {new:j} and {as_it_came} and j.xmin::text::int8 <> all (array(select part from parts))
        order by j.scheduled_at, j.id limit $8::int8) j
    union all
    select j.* from late cross join lateral (
        select j.id, 1, j.created_at, 'queued', null::int4, null, null from punctual_jobs j
        where j.scheduled_at >= late.began - interval '1 second' and j.scheduled_at <= late.began + interval '1 second'
            and j.xmin::text::int8 = late.part and {as_it_came} limit $8::int8) j)
select * from found order by at, job_id, n limit $8::int8

-- name: changes_stand
-- The current snapshot: the time, the least transaction id that had not begun, and the open transactions. A transaction with a lesser id
-- that is not among them has ended; if it was committed, the next statement sees it. In: the time (or null).
-- Read from locks, which are held until the end is visible to all transactions.
select {now}, pg_snapshot_xmax(pg_current_snapshot())::text::int8,
    array(select l.transactionid::text::int8 from pg_locks l
          where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted)

-- name: changes_jobs
-- The columns of jobs that subscribers to changes filter by. In: ids, scheduled_ats. Index: the whole primary key.
select j.id, j.queue, j.name, j.user_id, j.correlation_id, j.workflow_id, j.options
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j

-- name: announce_late_commit
-- An application has stored jobs in its own transaction: notifies waiting processes, and adds a row for readers that follow changes.
-- In: the time (or null), the channel, the payloads.
with inserted_late_commits as (
    insert into punctual_late_commits (written, began, whole)
    select coalesce($1::timestamptz, clock_timestamp()), {now}, pg_current_xact_id()::text::int8 & 4294967295)
select pg_notify($2, w) from unnest($3::text[]) w

-- name: prune_late_commits
-- Deletes old late commits. In: the cutoff. Index: punctual_late_commits_written.
delete from punctual_late_commits where written < $1::timestamptz

-- name: logs
-- The log of a job, oldest line first. In: id, the earliest time, the limit. Index: primary key of the partitions since then.
select run, at, level, message from punctual_logs
where job_id = $1::uuid and at >= $2::timestamptz order by run, line limit $3::int8

-- name: insert_logs
-- Stores log lines of existing jobs; lines that exist already (from a write that is retried) are kept.
-- In: ids, scheduled_ats, runs, lines, times, levels, messages. Index: primary keys.
insert into punctual_logs (job_id, run, line, at, level, message)
select u.id, u.run, u.line, u.at, u.level, u.message
from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::int4[], $5::timestamptz[], $6::text[], $7::text[])
    u (id, scheduled_at, run, line, at, level, message)
where exists (select from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id)
on conflict do nothing

-- name: set_progress
-- Stores the progress of running jobs. In: ids, scheduled_ats, runs, workers, documents. Index: primary keys.
update punctual_jobs j set progress = u.progress
from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::uuid[], $5::text[]) u (id, scheduled_at, run, worker_id, progress)
where j.scheduled_at = u.scheduled_at and j.id = u.id and exists (
    select from punctual_running r where r.id = u.id and r.run = u.run and r.worker_id = u.worker_id)
