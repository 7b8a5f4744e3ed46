-- Stores jobs; does nothing for those whose ids are known.
-- In: a job's columns. Out: the ids and places of those that are new, which are numbered in their order. Index: the unique one on id.
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
-- The number of a first event is new, so that it tells which are.
select j.id, j.seq from openjson(@P1) with (id char(36) '$[0]', last_event bigint '$[18]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16)) and j.last_event = i.last_event
