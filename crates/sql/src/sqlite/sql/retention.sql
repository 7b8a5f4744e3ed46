-- name: expirable
-- Finished jobs of one status whose retention has ended, oldest first.
-- In: status, cutoff, the limit. Out: job. Index: the head of punctual_jobs_finished.
select seq from punctual_jobs
where status = ?1 and finished_at is not null and finished_at <= ?2 and keep_for_ms is null
order by finished_at, seq limit ?3

-- name: expirable_by_job
-- Finished jobs whose own retention has ended.
-- In: now, the limit. Out: job. Index: the head of the primary key.
select job from punctual_expiries where expires_at <= ?1 order by expires_at, job limit ?2

-- name: insert_expiry
-- Records when a finished job with a retention of its own expires.
insert into punctual_expiries (expires_at, job) values (?1, ?2)

-- name: delete_expiry
-- Removes the expiry of a job that is deleted, or is no longer finished. Index: the whole primary key.
delete from punctual_expiries where expires_at = ?1 and job = ?2

-- name: purgeable
-- Jobs that were deleted before a cutoff, oldest deletion first.
-- In: cutoff, the limit. Out: job. Index: the head of the primary key.
select job from punctual_deleted where deleted_at <= ?1 order by deleted_at, job limit ?2

-- name: insert_deleted
-- Records that a job is deleted.
insert into punctual_deleted (deleted_at, job) values (?1, ?2)

-- name: delete_deleted
-- Removes a deleted job that is purged. Index: the whole primary key.
delete from punctual_deleted where deleted_at = ?1 and job = ?2

-- name: ephemeral
-- Ephemeral jobs from before a time that are not running. In: the limit, the time. Out: job. Index: rowid, then the primary keys of
-- punctual_jobs and punctual_running.
select e.job from punctual_ephemeral e cross join punctual_jobs j on j.seq = e.job
where j.created_at < ?2 and not exists (select 1 from punctual_running r where r.job_id = j.id) limit ?1

-- name: insert_ephemeral
-- Records a job that is deleted at restart.
insert into punctual_ephemeral (job) values (?1)

-- name: delete_ephemeral
-- Removes an ephemeral job that is deleted. Index: rowid.
delete from punctual_ephemeral where job = ?1

-- name: prune_workers
-- Deletes workers whose last heartbeat is old. In: cutoff. Reads the whole table: one row for each worker.
delete from punctual_workers where seen_at <= ?1
