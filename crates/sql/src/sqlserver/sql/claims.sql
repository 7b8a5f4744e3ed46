-- name: claim_take
-- The columns that a claim needs to lease a queued job. In: seq. Index: primary key.
select j.id, j.attempt, j.run, j.keep_for_ms, j.user_id, j.last_event, j.flow, i.place
from openjson(@P1) with (seq bigint '$[0]', place int '$[1]') i join punctual_jobs j with (forceseek) on j.seq = i.seq

-- name: claim_read
-- A claimed job for its worker: the columns of punctual_jobs_now, without reading punctual_running. Index: primary key.
select j.seq, j.id, j.name, j.queue, j.status, j.priority, j.scheduled_at, j.run_at, j.attempt, j.run, j.crash_count, j.max_attempts, j.timeout_ms,
    j.user_id, j.correlation_id, j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at, j.updated_at, j.started_at,
    j.finished_at, j.options, j.payload, j.progress, j.result, j.error, null, null, i.place
from openjson(@P1) with (seq bigint '$[0]', place int '$[1]') i join punctual_jobs j with (forceseek) on j.seq = i.seq

-- name: insert_running
-- Leases a job to a worker: stores the lease, and the fence that every settle must pass.
insert into punctual_running (job_id, job, run, attempt, worker_id, lease_until, started_at, priority, queue, name, keep_for_ms, user_id, last_event, flow, limit_key, limit_key_hash)
select cast(cast(i.job_id as uniqueidentifier) as binary(16)), i.job, i.run, i.attempt, cast(cast(i.worker_id as uniqueidentifier) as binary(16)),
    i.lease_until, i.started_at, i.priority, i.queue, i.name, i.keep_for_ms, i.user_id, i.last_event, i.flow, i.limit_key, cast(hashbytes('sha2_256', i.limit_key) as binary(32))
from openjson(@P1) with (
    job_id char(36) '$[0]', job bigint '$[1]', run int '$[2]', attempt int '$[3]', worker_id char(36) '$[4]', lease_until bigint '$[5]',
    started_at bigint '$[6]', priority tinyint '$[7]', queue nvarchar(256) '$[8]', name nvarchar(256) '$[9]', keep_for_ms bigint '$[10]',
    user_id nvarchar(512) '$[11]', last_event bigint '$[12]', flow bit '$[13]', limit_key nvarchar(1024) '$[14]') i

-- name: running
-- The leases of jobs. In: id. Index: primary key.
select r.job, r.run, r.attempt, r.worker_id, r.lease_until, r.started_at, r.priority, r.queue, r.name, r.keep_for_ms, r.user_id,
    r.last_event, r.flow, r.limit_key, i.place
from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i
join punctual_running r with (forceseek) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16))

-- name: hold_running
-- The leases of jobs, which are locked, so that no other transaction ends them meanwhile. In: id. Index: primary key.
select r.job, r.run, r.attempt, r.worker_id, r.lease_until, r.started_at, r.priority, r.queue, r.name, r.keep_for_ms, r.user_id,
    r.last_event, r.flow, r.limit_key, i.place
from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i
join punctual_running r with (forceseek, updlock, rowlock) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16))

-- name: delete_running
-- Ends the lease of a job. In: id, run, worker, whether another job or a workflow is known to depend on the job.
-- Rows changed: 1 if the worker held it. Index: primary key.
delete t from punctual_running t with (forceseek, rowlock) join openjson(@P1) with (job_id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', flow bit '$[3]') i
on t.job_id = cast(cast(i.job_id as uniqueidentifier) as binary(16)) and t.run = i.run and t.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
    and t.flow = i.flow

-- name: settle_job
-- Stores the state of a job after an execution. A result or an error that is null keeps the previous one. Index: primary key.
update j set status = i.status, run_at = coalesce(i.run_at, j.run_at), attempt = i.attempt, run = i.run, crash_count = j.crash_count + i.crashes,
    updated_at = i.now, started_at = i.started_at, finished_at = i.finished_at, result = coalesce(i.result, j.result), error = coalesce(i.error, j.error),
    last_event = i.last_event
from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (
    seq bigint '$[0]', status varchar(16) '$[1]', run_at bigint '$[2]', attempt int '$[3]', run int '$[4]', crashes int '$[5]',
    now bigint '$[6]', started_at bigint '$[7]', finished_at bigint '$[8]', result nvarchar(max) '$[9]', error nvarchar(max) '$[10]',
    last_event bigint '$[11]') i
on j.seq = i.seq

-- name: extend_lease
-- Extends leases that had not expired when this was requested. In: id, run, worker, the time of the request, the new end. Out: a row if it
-- is held. Index: primary key.
update r set lease_until = i.until
from openjson(@P1) with (
    id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', now bigint '$[3]', until bigint '$[4]', place int '$[5]') i
join punctual_running r with (forceseek, rowlock) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and r.run = i.run and r.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
where r.lease_until > i.now and r.lease_until < i.until;
select i.place
from openjson(@P1) with (
    id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', now bigint '$[3]', until bigint '$[4]', place int '$[5]') i
join punctual_running r with (forceseek) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and r.run = i.run and r.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
where r.lease_until >= i.until

-- name: confirm
-- Records that handlers are about to start, if their leases have not expired. In: id, run, worker, now. Out: a row if it was held.
-- Index: primary key.
update r set confirmed = 1
from openjson(@P1) with (
    id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', now bigint '$[3]', place int '$[4]') i
join punctual_running r with (forceseek, rowlock) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and r.run = i.run and r.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
where r.lease_until > i.now;
select i.place
from openjson(@P1) with (
    id char(36) '$[0]', run int '$[1]', worker_id char(36) '$[2]', now bigint '$[3]', place int '$[4]') i
join punctual_running r with (forceseek) on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and r.run = i.run and r.worker_id = cast(cast(i.worker_id as uniqueidentifier) as binary(16))
where r.lease_until > i.now and r.confirmed = 1

-- name: expired_leases
-- Expired leases, earliest first. Reads the whole table, which is as small as the fleet's concurrency.
-- In: now, the limit. Out: job, its id, whether its worker has confirmed that its handler is about to start, run, worker.
select top (@P2) job, job_id, confirmed, run, worker_id from punctual_running where lease_until <= @P1 order by lease_until, job

-- name: leases_of
-- The executions that a worker holds. Reads the whole table, which is as small as the fleet's concurrency.
-- In: worker, the limit. Out: job, its id, whether its worker has confirmed that its handler is about to start, run, worker.
select top (@P2) job, job_id, confirmed, run, worker_id from punctual_running where worker_id = @P1 order by job_id

-- name: end_leases
-- Ends the leases of a worker now. Reads the whole table, which is as small as the fleet's concurrency. In: now, worker. Rows changed: the
-- count.
update punctual_running with (rowlock) set lease_until = @P1 where worker_id = @P2 and lease_until > @P1
