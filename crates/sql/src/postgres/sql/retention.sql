-- name: expirable
-- Finished jobs of one status whose retention has ended, oldest first, except those with a retention of their own. In: cutoff, the limit,
-- the earliest end, the end to stop before, the number of the status. Index: a range of punctual_events_final; then primary keys.
select e.job_id from punctual_events e
cross join lateral (
    select keep_for_ms from punctual_jobs j where j.scheduled_at = punctual_scheduled_at(e.job_id) and j.id = e.job_id limit 1) j
where e.final = $5::int2 and e.at <= $1::timestamptz and e.at >= $3::timestamptz
    and e.at < $4::timestamptz and j.keep_for_ms is null
order by e.at, e.job_id limit $2::int8

-- name: expirable_by_job
-- Finished jobs whose own retention has ended. In: the time, the limit. Index: the head of the primary key.
select id from punctual_expiries where expires_at <= $1::timestamptz order by expires_at, id limit $2::int8

-- name: purgeable
-- Jobs that were deleted before a cutoff, oldest deletion first. In: cutoff, the limit. Index: the head of the primary key.
select id from punctual_deleted where deleted_at <= $1::timestamptz order by deleted_at, id limit $2::int8

-- name: ephemeral
-- Ephemeral jobs from before a time that are not running. In: the time, the limit. Reads the whole table, which is small.
select e.id from punctual_ephemeral e
where e.created_at < $1::timestamptz and not exists (select from punctual_running r where r.id = e.id) order by e.id limit $2::int8

-- name: prune
-- Deletes old logs, counters, workers and workflows, and clears the columns of old events that describe executions.
-- In: cutoffs of executions and logs, of counters, of workers; the limit; the earliest time of an event to clear; the greatest workflow id
-- of the cutoff. Out: the count, and the time of the last cleared event. Index: a range of punctual_events_final for each value of final.
with old_events as materialized (
    select s.* from generate_series(0, 3) f cross join lateral (
        select e.final, e.at, e.job_id, e.n from punctual_events e
        where e.final = f and e.at >= $5::timestamptz and e.at <= $1::timestamptz and e.attempt is not null
        order by e.at limit $4::int8) s
    order by s.at limit $4::int8),
updated_events as (
    update punctual_events e set attempt = null, outcome = null, worker_id = null, error = null
    from old_events where e.final = old_events.final and e.at = old_events.at and e.job_id = old_events.job_id and e.n = old_events.n returning 1),
deleted_logs as (
    delete from punctual_logs where (job_id, run, line, at) in (
        select job_id, run, line, at from punctual_logs where at <= $1::timestamptz limit $4::int8) returning 1),
deleted_rollups as (delete from punctual_rollups where hour < $2::timestamptz returning 1),
deleted_workers as (delete from punctual_workers where seen_at <= $3::timestamptz returning 1),
deleted_workflows as (
    delete from punctual_workflows where id in (
        select w.id from punctual_workflows w
        where w.id <= $6::uuid and w.updated_at <= $1::timestamptz and not exists (select from punctual_nodes n where n.workflow = w.id)
            and not exists (select from punctual_ends_pending e where e.workflow = w.id)
        limit $4::int8) returning 1)
select (select count(*) from updated_events) + (select count(*) from deleted_logs) + (select count(*) from deleted_rollups) + (select count(*) from deleted_workers) + (select count(*) from deleted_workflows), (select max(at) from old_events)

-- name: forget_dropped_partition
-- Subtracts the jobs of a dropped partition from the counters, and deletes their rows in other tables except labels, events and logs.
-- Keys are locked in their order, as enqueues do. Reads the whole partition.
insert into punctual_counts_new (lane, status, n)
select j.lane, j.status, -count(*) from {jobs} j where {gone} group by j.lane, j.status;
delete from punctual_keys where ctid = any (array(
    select k.ctid from punctual_keys k join {jobs} j on j.unique_key is not null and k.job_id = j.id
    where {gone} order by k.scope collate "C", k.key collate "C" for update of k));
delete from punctual_expiries k using {jobs} j
where j.keep_for_ms is not null and {gone} and k.expires_at = j.finished_at + j.keep_for_ms * interval '1 millisecond' and k.id = j.id;
delete from punctual_deleted d using {jobs} j
where j.status = 'deleted' and {gone} and d.deleted_at = j.updated_at and d.id = j.id;
delete from punctual_ephemeral e using {jobs} j where j.ephemeral and {gone} and e.id = j.id;
delete from punctual_dependencies d using {jobs} j where {gone} and d.parent = j.id;
delete from punctual_dependencies d using {jobs} j where {gone} and d.child = j.id;
delete from punctual_nodes n using {jobs} j where {gone} and n.job_id = j.id;
