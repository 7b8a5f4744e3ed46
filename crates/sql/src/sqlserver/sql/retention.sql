-- name: expirable
-- Finished jobs of one status whose retention has ended, oldest first.
-- In: status, cutoff, the limit. Out: job. Index: the head of punctual_jobs_finished.
select top (@P3) seq from punctual_jobs
where status = cast(@P1 as varchar(16)) and finished_at is not null and finished_at <= @P2 and keep_for_ms is null
order by finished_at, seq

-- name: expirable_by_job
-- Finished jobs whose own retention has ended.
-- In: now, the limit. Out: job. Index: the head of the primary key.
select top (@P2) job from punctual_expiries where expires_at <= @P1 order by expires_at, job

-- name: insert_expiry
-- Records when a finished job with a retention of its own expires.
insert into punctual_expiries (expires_at, job)
select i.expires_at, i.job
from openjson(@P1) with (expires_at bigint '$[0]', job bigint '$[1]') i

-- name: delete_expiry
-- Removes the expiry of a job that is deleted, or is no longer finished. Index: the whole primary key.
delete t from punctual_expiries t with (forceseek, rowlock) join openjson(@P1) with (expires_at bigint '$[0]', job bigint '$[1]') i
on t.expires_at = i.expires_at and t.job = i.job

-- name: purgeable
-- Jobs that were deleted before a cutoff, oldest deletion first.
-- In: cutoff, the limit. Out: job. Index: the head of the primary key.
select top (@P2) job from punctual_deleted where deleted_at <= @P1 order by deleted_at, job

-- name: insert_deleted
-- Records that a job is deleted.
insert into punctual_deleted (deleted_at, job)
select i.deleted_at, i.job
from openjson(@P1) with (deleted_at bigint '$[0]', job bigint '$[1]') i

-- name: delete_deleted
-- Removes a deleted job that is purged. Index: the whole primary key.
delete t from punctual_deleted t with (forceseek, rowlock) join openjson(@P1) with (deleted_at bigint '$[0]', job bigint '$[1]') i
on t.deleted_at = i.deleted_at and t.job = i.job

-- name: ephemeral
-- Ephemeral jobs from before a time that are not running. In: the limit, the time. Out: job. Index: primary key, then the primary keys of
-- punctual_jobs and punctual_running.
select top (@P1) e.job from punctual_ephemeral e with (readcommittedlock, readpast, rowlock) join punctual_jobs j with (forceseek) on j.seq = e.job
where j.created_at < @P2 and not exists (select 1 from punctual_running r where r.job_id = j.id)

-- name: insert_ephemeral
-- Records a job that is deleted at restart.
insert into punctual_ephemeral (job)
select i.job
from openjson(@P1) with (job bigint '$[0]') i

-- name: delete_ephemeral
-- Removes an ephemeral job that is deleted. Index: primary key.
delete t from punctual_ephemeral t with (forceseek, rowlock) join openjson(@P1) with (job bigint '$[0]') i
on t.job = i.job

-- name: prune_workers
-- Deletes workers whose last heartbeat is old. In: cutoff. Reads the whole table: one row for each worker.
delete from punctual_workers where seen_at <= @P1
