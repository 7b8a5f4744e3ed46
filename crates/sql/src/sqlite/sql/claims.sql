-- name: claim_take
-- The columns that a claim needs to lease a queued job. In: seq. Index: rowid.
select id, attempt, run, keep_for_ms, user_id, last_event, flow from punctual_jobs where seq = ?1

-- name: claim_read
-- A claimed job for its worker: the columns of punctual_jobs_now, without reading punctual_running. Index: rowid.
select seq, id, name, queue, status, priority, scheduled_at, run_at, attempt, run, crash_count, max_attempts, timeout_ms,
    user_id, correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, waiting_on, created_at, updated_at, started_at,
    finished_at, options, payload, progress, result, error, null, null
from punctual_jobs where seq = ?1

-- name: insert_running
-- Leases a job to a worker: stores the lease, and the fence that every settle must pass.
insert into punctual_running (job_id, job, run, attempt, worker_id, lease_until, started_at, priority, queue, name,
    keep_for_ms, user_id, last_event, flow, limit_key)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)

-- name: running
-- The lease of a job. In: id. Index: primary key.
select job, run, attempt, worker_id, lease_until, started_at, priority, queue, name, keep_for_ms, user_id,
    last_event, flow, limit_key
from punctual_running where job_id = ?1

-- name: hold_running
-- The lease of a job, which no other transaction can end meanwhile, as there is one writer. In: id. Index: primary key.
select job, run, attempt, worker_id, lease_until, started_at, priority, queue, name, keep_for_ms, user_id,
    last_event, flow, limit_key
from punctual_running where job_id = ?1

-- name: delete_running
-- Ends the lease of a job. In: id, run, worker, whether another job or a workflow is known to depend on the job.
-- Rows changed: 1 if the worker held it. Index: primary key.
delete from punctual_running where job_id = ?1 and run = ?2 and worker_id = ?3 and flow = ?4

-- name: settle_job
-- Stores the state of a job after an execution. A result or an error that is null keeps the previous one. Index: rowid.
update punctual_jobs set status = ?2, run_at = coalesce(?3, run_at), attempt = ?4, run = ?5,
    crash_count = crash_count + ?6, updated_at = ?7, started_at = ?8, finished_at = ?9,
    result = coalesce(?10, result), error = coalesce(?11, error), last_event = ?12
where seq = ?1

-- name: extend_lease
-- Extends a lease that had not expired when this was requested. In: id, run, worker, the time of the request, the new end. Out: a row if it
-- is held. Index: primary key.
update punctual_running set lease_until = max(lease_until, ?5)
where job_id = ?1 and run = ?2 and worker_id = ?3 and lease_until > ?4
returning 1

-- name: confirm
-- Records that a handler is about to start, if its lease has not expired. In: id, run, worker, now. Out: a row if it was held.
-- Index: primary key.
update punctual_running set confirmed = 1
where job_id = ?1 and run = ?2 and worker_id = ?3 and lease_until > ?4
returning 1

-- name: expired_leases
-- Expired leases, earliest first. Reads the whole table, which is as small as the fleet's concurrency.
-- In: now, the limit. Out: job, its id, whether its worker has confirmed that its handler is about to start, run, worker.
select job, job_id, confirmed, run, worker_id from punctual_running where lease_until <= ?1 order by lease_until, job limit ?2

-- name: leases_of
-- The executions that a worker holds. Reads the whole table, which is as small as the fleet's concurrency.
-- In: worker, the limit. Out: job, its id, whether its worker has confirmed that its handler is about to start, run, worker.
select job, job_id, confirmed, run, worker_id from punctual_running where worker_id = ?1 order by job_id limit ?2

-- name: end_leases
-- Ends the leases of a worker now. Reads the whole table, which is as small as the fleet's concurrency. In: now, worker. Rows changed: the
-- count.
update punctual_running set lease_until = ?1 where worker_id = ?2 and lease_until > ?1
