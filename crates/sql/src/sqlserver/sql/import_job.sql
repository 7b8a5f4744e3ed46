-- Jobs as another store had them; does nothing for those whose ids are known. Those that come later are older, and stand before the others of their instant.
-- In: a job's columns. Out: the ids and places of those that are new. Index: the unique one on id.
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
