-- name: import_job
-- Imports jobs, except those whose ids exist. Jobs are imported latest first; a later one gets a lesser seq, and is sorted before others of
-- its time. In: a job's columns. Out: the ids and seqs of the new ones. Index: the unique one on id.
declare @before bigint = (select coalesce(min(seq), 1099511627777) from punctual_jobs);
set identity_insert punctual_jobs on;
insert into punctual_jobs (seq, id, name, queue, status, priority, scheduled_at, run_at, attempt, run, crash_count, max_attempts, timeout_ms, user_id, correlation_id, unique_key,
    workflow_id, keep_for_ms, ephemeral, waiting_on, created_at, updated_at, started_at, finished_at, options, payload, progress, result, error, flow)
select @before - 1 - i.place, cast(cast(i.id as uniqueidentifier) as binary(16)), i.name, i.queue, i.status, i.priority, i.scheduled_at, i.run_at, i.attempt, i.run,
    i.crash_count, i.max_attempts, i.timeout_ms, i.user_id, i.correlation_id, i.unique_key, cast(cast(i.workflow_id as uniqueidentifier) as binary(16)), i.keep_for_ms, i.ephemeral, i.waiting_on, i.created_at, i.updated_at, i.started_at, i.finished_at, i.options, i.payload, i.progress,
    i.result, i.error, i.flow
from openjson(@P1) with (
    id char(36) '$[0]', name nvarchar(256) '$[1]', queue nvarchar(256) '$[2]', status varchar(16) '$[3]', priority tinyint '$[4]', scheduled_at bigint '$[5]', run_at bigint '$[6]',
    attempt int '$[7]', run int '$[8]', crash_count int '$[9]', max_attempts int '$[10]', timeout_ms bigint '$[11]',
    user_id nvarchar(512) '$[12]', correlation_id nvarchar(512) '$[13]', unique_key nvarchar(1024) '$[14]', workflow_id char(36) '$[15]', keep_for_ms bigint '$[16]',
    ephemeral bit '$[17]', waiting_on int '$[18]', created_at bigint '$[19]', updated_at bigint '$[20]', started_at bigint '$[21]', finished_at bigint '$[22]',
    options nvarchar(max) '$[23]', payload nvarchar(max) '$[24]', progress nvarchar(max) '$[25]', result nvarchar(max) '$[26]', error nvarchar(max) '$[27]', flow bit '$[28]', place int '$[29]') i
where not exists (select 1 from punctual_jobs j with (forceseek) where j.id = cast(cast(i.id as uniqueidentifier) as binary(16)));
set identity_insert punctual_jobs off;
select j.id, j.seq from openjson(@P1) with (id char(36) '$[0]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16)) and j.seq < @before

-- name: import_last_event
-- Stores the last event of an imported job. In: seq, the event. Index: primary key.
update j set last_event = i.event from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (seq bigint '$[0]', event bigint '$[1]') i on j.seq = i.seq

-- name: import_key
-- Imports a unique key, unless it is taken. In: scope, key, job, expires_at. Index: primary key.
insert into punctual_keys (scope, [key], job, expires_at, hash) select @P1, @P2, @P3, @P4, cast(hashbytes('sha2_256', @P2) as binary(32))
where not exists (select 1 from punctual_keys where scope = @P1 and hash = cast(hashbytes('sha2_256', @P2) as binary(32)))

-- name: dependencies_of
-- The parents of a job, pending or ended. In: id. Out: parent, what the job does if the parent fails, whether the parent succeeded (or
-- null). Index: the unique one on id, then punctual_dependencies_child.
select p.id, d.policy, d.succeeded, i.place from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i
join punctual_jobs c with (forceseek) on c.id = cast(cast(i.id as uniqueidentifier) as binary(16)) join punctual_dependencies d with (forceseek) on d.child = c.seq
join punctual_jobs p with (forceseek) on p.seq = d.parent

-- name: import_dependency
-- Imports a dependency, unless it exists. In: ids of parent and child, what the child does if the parent fails, whether the parent
-- succeeded. Rows changed: 1, or 0 if it exists or one of the two jobs does not. Index: the unique one on id, twice.
insert into punctual_dependencies (parent, child, policy, succeeded)
select p.seq, c.seq, i.policy, i.succeeded
from openjson(@P1) with (parent_id char(36) '$[0]', child_id char(36) '$[1]', policy varchar(16) '$[2]', succeeded bit '$[3]') i
join punctual_jobs p with (forceseek) on p.id = cast(cast(i.parent_id as uniqueidentifier) as binary(16)) join punctual_jobs c with (forceseek) on c.id = cast(cast(i.child_id as uniqueidentifier) as binary(16))
where not exists (select 1 from punctual_dependencies d with (forceseek) where d.parent = p.seq and d.child = c.seq)

-- name: import_workflow
-- Imports a workflow. In: its columns. Rows changed: 1, or 0 if it exists. Index: primary key.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total, succeeded, dead, cancelled)
select @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9 where not exists (select 1 from punctual_workflows where id = @P1)

-- name: import_node
-- Imports the node of a job in its workflow. In: workflow, node, id of the job. Index: the unique one on id.
insert into punctual_nodes (workflow, node, job)
select cast(cast(i.workflow as uniqueidentifier) as binary(16)), i.node, j.seq
from openjson(@P1) with (workflow char(36) '$[0]', node nvarchar(256) '$[1]', id char(36) '$[2]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16))
where not exists (select 1 from punctual_nodes n with (forceseek) where n.workflow = cast(cast(i.workflow as uniqueidentifier) as binary(16)) and n.node = i.node collate Latin1_General_BIN2)

-- name: import_schedule
-- Imports a schedule. In: its columns. Rows changed: 1, or 0 if the name exists. Index: primary key.
insert into punctual_schedules (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at,
    updated_by)
select @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9, @P10, @P11, @P12 where not exists (select 1 from punctual_schedules where name = @P1)

-- name: import_queue
-- Imports the settings of a queue. In: its columns. Rows changed: 1, or 0 if it has settings. Index: primary key.
insert into punctual_queues (name, paused, settings, revision, updated_at, updated_by, limited)
select @P1, @P2, @P3, @P4, @P5, @P6, @P7 where not exists (select 1 from punctual_queues where name = @P1)

-- name: import_rollup
-- Imports a rollup. In: hour, name, queue, measure, bucket, the count. Rows changed: 0 if it exists. Index: primary key.
insert into punctual_rollups (hour, name, queue, measure, bucket, n)
select i.hour, i.name, i.queue, i.measure, i.bucket, i.n
from openjson(@P1) with (
    hour bigint '$[0]', name nvarchar(256) '$[1]', queue nvarchar(256) '$[2]', measure varchar(16) '$[3]', bucket int '$[4]', n bigint '$[5]') i
where not exists (select 1 from punctual_rollups t with (forceseek) where t.hour = i.hour and t.name = i.name collate Latin1_General_BIN2 and t.queue = i.queue collate Latin1_General_BIN2
    and t.measure = i.measure collate Latin1_General_BIN2 and t.bucket = i.bucket)

-- name: import_notification
-- Imports a message. In: its id, user, message, job, time. Rows changed: 0 if it exists. Index: primary key.
insert into punctual_notifications (id, user_id, message, job_id, created_at) select @P1, @P2, @P3, @P4, @P5
where not exists (select 1 from punctual_notifications where id = @P1)
