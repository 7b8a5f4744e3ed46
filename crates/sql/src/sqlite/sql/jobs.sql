-- name: insert_job
-- Stores a job, unless its id exists.
-- In: a job's columns. Rows changed: 1, or 0 if the id exists. Index: the unique one on id.
insert into punctual_jobs (id, name, queue, status, priority, scheduled_at, run_at, max_attempts, timeout_ms, user_id,
    correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, created_at, updated_at, options, payload,
    last_event, waiting_on, flow)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16, ?17, ?18, ?19, ?20, ?21)
on conflict (id) do nothing

-- name: job
-- A job. In: id. Index: the unique one on id, then the primary key of punctual_running.
select * from punctual_jobs_now where id = ?1

-- name: job_by_seq
-- A job. In: seq. Index: rowid, then the primary key of punctual_running.
select * from punctual_jobs_now where seq = ?1

-- name: seq_of
-- The seq of a job. In: id. Index: the unique one on id.
select seq from punctual_jobs where id = ?1

-- name: save_job
-- Saves the columns of a job that an operator's action may change. Index: rowid.
update punctual_jobs set status = ?2, run_at = ?3, attempt = ?4, run = ?5, max_attempts = ?6, updated_at = ?7,
    started_at = ?8, finished_at = ?9, last_event = ?10, waiting_on = ?11
where seq = ?1

-- name: update_job
-- Changes a job on behalf of another enqueue. In: job, payload (or null), run_at, now, its event. Index: rowid.
update punctual_jobs set payload = coalesce(?2, payload), run_at = ?3, updated_at = ?4, last_event = ?5 where seq = ?1

-- name: set_retention
-- Changes how long a finished job is kept. In: job, milliseconds after its end. Index: rowid.
update punctual_jobs set keep_for_ms = ?2 where seq = ?1

-- name: run_at
-- When a job may start. In: seq. Index: rowid.
select run_at from punctual_jobs where seq = ?1

-- name: result
-- The result of a job. In: id. Index: the unique one on id.
select result from punctual_jobs where id = ?1

-- name: delete_job
-- Deletes a job. In: seq. Index: rowid.
delete from punctual_jobs where seq = ?1

-- name: insert_label
-- Stores a user, correlation id or tag of a job.
insert into punctual_labels (kind, value, id, job) values (?1, ?2, ?3, ?4) on conflict do nothing

-- name: delete_label
-- Deletes a user, correlation id or tag of a job that is deleted. Index: the whole primary key.
delete from punctual_labels where kind = ?1 and value = ?2 and id = ?3

-- name: find_key
-- The job that holds a unique key. In: scope, key. Out: its seq, its id, until when the key is in force, its status.
-- Index: primary keys, rowid.
select j.seq, j.id, k.expires_at, case when r.job is null then j.status else 'processing' end
from punctual_keys k join punctual_jobs j on j.seq = k.job left join punctual_running r on r.job_id = j.id
where k.scope = ?1 and k.key = ?2

-- name: insert_key
-- Takes a unique key for a job, perhaps from a job that no longer blocks it. In: scope, key, job, expires_at. Index: primary key.
insert into punctual_keys (scope, key, job, expires_at) values (?1, ?2, ?3, ?4)
on conflict (scope, key) do update set job = excluded.job, expires_at = excluded.expires_at

-- name: delete_key
-- Releases a job's unique key. Index: primary key.
delete from punctual_keys where scope = ?1 and key = ?2 and job = ?3
