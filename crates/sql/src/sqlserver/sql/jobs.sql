-- name: insert_job
-- Stores jobs, except those whose ids exist.
-- In: a job's columns. Out: the ids and seqs of the new ones, which are numbered in their order. Index: the unique one on id.
insert into punctual_jobs (id, name, queue, status, priority, scheduled_at, run_at, max_attempts, timeout_ms, user_id, correlation_id, unique_key, workflow_id, keep_for_ms,
    ephemeral, created_at, updated_at, options, payload, last_event, waiting_on, flow)
select cast(cast(i.id as uniqueidentifier) as binary(16)), i.name, i.queue, i.status, i.priority, i.scheduled_at, i.run_at, i.max_attempts, i.timeout_ms,
    i.user_id, i.correlation_id, i.unique_key, cast(cast(i.workflow_id as uniqueidentifier) as binary(16)), i.keep_for_ms, i.ephemeral, i.created_at,
    i.created_at, i.options, i.payload, i.last_event, i.waiting_on, i.flow
from openjson(@P1) with (
    id char(36) '$[0]', name nvarchar(256) '$[1]', queue nvarchar(256) '$[2]', status varchar(16) '$[3]', priority tinyint '$[4]',
    scheduled_at bigint '$[5]', run_at bigint '$[6]', max_attempts int '$[7]', timeout_ms bigint '$[8]', user_id nvarchar(512) '$[9]',
    correlation_id nvarchar(512) '$[10]', unique_key nvarchar(1024) '$[11]', workflow_id char(36) '$[12]', keep_for_ms bigint '$[13]',
    ephemeral bit '$[14]', created_at bigint '$[15]', options nvarchar(max) '$[16]', payload nvarchar(max) '$[17]', last_event bigint '$[18]',
    waiting_on int '$[19]', flow bit '$[20]', place int '$[21]') i
where not exists (select 1 from punctual_jobs j with (forceseek) where j.id = cast(cast(i.id as uniqueidentifier) as binary(16)))
order by i.place;
-- The number of the first event is new, so that it identifies the new jobs.
select j.id, j.seq from openjson(@P1) with (id char(36) '$[0]', last_event bigint '$[18]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16)) and j.last_event = i.last_event

-- name: job
-- A job: the columns of punctual_jobs_now. In: id. Index: the unique one on id, then the primary key of punctual_running.
select j.seq, j.id, j.name, j.queue, case when r.job is null then j.status else 'processing' end, j.priority, j.scheduled_at, j.run_at,
    coalesce(r.attempt, j.attempt), coalesce(r.run, j.run), j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id, j.unique_key,
    j.workflow_id, j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at, coalesce(r.started_at, j.updated_at), coalesce(r.started_at, j.started_at),
    j.finished_at, j.options, j.payload, j.progress, j.result, j.error, r.worker_id, r.lease_until, coalesce(r.last_event, j.last_event), i.place
from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16)) left join punctual_running r with (forceseek) on r.job_id = j.id

-- name: job_by_seq
-- A job: the columns of punctual_jobs_now. In: seq. Index: primary key, then the primary key of punctual_running.
select j.seq, j.id, j.name, j.queue, case when r.job is null then j.status else 'processing' end, j.priority, j.scheduled_at, j.run_at,
    coalesce(r.attempt, j.attempt), coalesce(r.run, j.run), j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id, j.unique_key,
    j.workflow_id, j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at, coalesce(r.started_at, j.updated_at), coalesce(r.started_at, j.started_at),
    j.finished_at, j.options, j.payload, j.progress, j.result, j.error, r.worker_id, r.lease_until, coalesce(r.last_event, j.last_event), i.place
from openjson(@P1) with (seq bigint '$[0]', place int '$[1]') i
join punctual_jobs j with (forceseek) on j.seq = i.seq left join punctual_running r with (forceseek) on r.job_id = j.id

-- name: seq_of
-- The seq of a job. In: id. Index: the unique one on id.
select j.seq, i.place from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16))

-- name: save_job
-- Saves the columns of a job that an operator's action may change. Index: primary key.
update j set status = i.status, run_at = i.run_at, attempt = i.attempt, run = i.run, max_attempts = i.max_attempts, updated_at = i.updated_at,
    started_at = i.started_at, finished_at = i.finished_at, last_event = i.last_event, waiting_on = i.waiting_on
from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (
    seq bigint '$[0]', status varchar(16) '$[1]', run_at bigint '$[2]', attempt int '$[3]', run int '$[4]', max_attempts int '$[5]',
    updated_at bigint '$[6]', started_at bigint '$[7]', finished_at bigint '$[8]', last_event bigint '$[9]', waiting_on int '$[10]') i
on j.seq = i.seq

-- name: update_job
-- Changes a job on behalf of another enqueue. In: job, payload (or null), run_at, now, its event. Index: primary key.
update punctual_jobs set payload = coalesce(cast(@P2 as nvarchar(max)), payload), run_at = @P3, updated_at = @P4, last_event = @P5 where seq = @P1

-- name: set_retention
-- Changes how long a finished job is kept. In: job, milliseconds after its end. Index: primary key.
update j set keep_for_ms = i.keep_for_ms
from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (seq bigint '$[0]', keep_for_ms bigint '$[1]') i
on j.seq = i.seq

-- name: run_at
-- When a job may start. In: seq. Index: primary key.
select j.run_at, i.place from openjson(@P1) with (seq bigint '$[0]', place int '$[1]') i join punctual_jobs j with (forceseek) on j.seq = i.seq

-- name: result
-- The result of a job. In: id. Index: the unique one on id.
select j.result, i.place from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16))

-- name: delete_job
-- Deletes a job. In: seq. Index: primary key.
delete t from punctual_jobs t with (forceseek, rowlock) join openjson(@P1) with (seq bigint '$[0]') i
on t.seq = i.seq

-- name: insert_label
-- Stores a user, correlation id or tag of a job.
insert into punctual_labels (kind, value, id, job)
select distinct i.kind collate Latin1_General_BIN2, i.value collate Latin1_General_BIN2, cast(cast(i.id as uniqueidentifier) as binary(16)), i.job
from openjson(@P1) with (kind varchar(16) '$[0]', value nvarchar(512) '$[1]', id char(36) '$[2]', job bigint '$[3]') i
where not exists (select 1 from punctual_labels l with (forceseek) where l.kind = i.kind collate Latin1_General_BIN2 and l.value = i.value collate Latin1_General_BIN2
    and l.id = cast(cast(i.id as uniqueidentifier) as binary(16)))

-- name: delete_label
-- Deletes a user, correlation id or tag of a job that is deleted. Index: the whole primary key.
delete t from punctual_labels t with (forceseek, rowlock) join openjson(@P1) with (kind varchar(16) '$[0]', value nvarchar(512) '$[1]', id char(36) '$[2]') i
on t.kind = i.kind collate Latin1_General_BIN2 and t.value = i.value collate Latin1_General_BIN2 and t.id = cast(cast(i.id as uniqueidentifier) as binary(16))

-- name: find_key
-- The job that holds a unique key. In: scope, key. Out: its seq, its id, until when the key is in force, its status.
-- Index: primary keys.
select j.seq, j.id, k.expires_at, case when r.job is null then j.status else 'processing' end, i.place
from openjson(@P1) with (scope nvarchar(512) '$[0]', [key] nvarchar(1024) '$[1]', place int '$[2]') i
join punctual_keys k with (forceseek) on k.scope = i.scope collate Latin1_General_BIN2 and k.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32))
join punctual_jobs j with (forceseek) on j.seq = k.job left join punctual_running r with (forceseek) on r.job_id = j.id

-- name: insert_key
-- Takes a unique key for a job, perhaps from a job that no longer blocks it. In: scope, key, job, expires_at. Index: primary key.
update k set job = i.job, expires_at = i.expires_at
from openjson(@P1) with (scope nvarchar(512) '$[0]', [key] nvarchar(1024) '$[1]', job bigint '$[2]', expires_at bigint '$[3]') i
join punctual_keys k with (forceseek, rowlock) on k.scope = i.scope collate Latin1_General_BIN2 and k.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32));
insert into punctual_keys (scope, [key], job, expires_at, hash)
select i.scope, i.[key], i.job, i.expires_at, cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (scope nvarchar(512) '$[0]', [key] nvarchar(1024) '$[1]', job bigint '$[2]', expires_at bigint '$[3]') i
where not exists (select 1 from punctual_keys k with (forceseek) where k.scope = i.scope collate Latin1_General_BIN2 and k.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)))

-- name: delete_key
-- Releases a job's unique key. Index: primary key.
delete t from punctual_keys t with (forceseek, rowlock) join openjson(@P1) with (scope nvarchar(512) '$[0]', [key] nvarchar(1024) '$[1]', job bigint '$[2]') i
on t.scope = i.scope collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.job = i.job
