-- A job's events are found from its last one backwards, each naming the one before. That takes the place of an index,
-- which cost every event a second entry in the middle of a large tree; a story is read rarely and has few events.

alter table punctual_events add column previous integer;
update punctual_events set previous =
    (select max(e.seq) from punctual_events e where e.job = punctual_events.job and e.seq < punctual_events.seq);

alter table punctual_jobs add column last_event integer;
alter table punctual_running add column last_event integer;
update punctual_jobs set last_event = (select max(e.seq) from punctual_events e where e.job = punctual_jobs.seq);
update punctual_running set last_event = (select max(e.seq) from punctual_events e where e.job = punctual_running.job);

drop index punctual_events_job;

drop view punctual_jobs_readable;
drop view punctual_jobs_now;

-- Every job as it stands now.
create view punctual_jobs_now as
select j.seq, j.id, j.name, j.queue,
       case when r.job is null then j.status else 'processing' end as status,
       j.priority, j.scheduled_at, j.run_at,
       coalesce(r.attempt, j.attempt) as attempt,
       coalesce(r.run, j.run) as run,
       j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id, j.unique_key, j.workflow_id,
       j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at,
       coalesce(r.started_at, j.updated_at) as updated_at,
       coalesce(r.started_at, j.started_at) as started_at,
       j.finished_at, j.extras, j.payload, j.progress, j.result, j.error,
       r.worker_id, r.lease_until,
       coalesce(r.last_event, j.last_event) as last_event
from punctual_jobs j left join punctual_running r on r.job_id = j.id;

-- The same, for people: `select name, count(*) from punctual_jobs_readable where status = 'dead'
-- and finished_at >= date('now', '-1 day') group by name`.
create view punctual_jobs_readable as
select 'job_' || lower(hex(id)) as id, name, queue, status, priority,
       strftime('%Y-%m-%dT%H:%M:%fZ', scheduled_at / 1e6, 'unixepoch') as scheduled_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', run_at / 1e6, 'unixepoch') as run_at,
       attempt, max_attempts, crash_count, timeout_ms, user_id, correlation_id, unique_key,
       extras ->> 'tags' as tags, extras ->> 'created_by' as created_by, extras ->> 'description' as description,
       extras ->> 'metadata' as metadata,
       'wrk_' || lower(hex(worker_id)) as worker_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', lease_until / 1e6, 'unixepoch') as lease_until,
       strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1e6, 'unixepoch') as created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1e6, 'unixepoch') as updated_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1e6, 'unixepoch') as started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', finished_at / 1e6, 'unixepoch') as finished_at,
       progress, payload, result, error ->> 'message' as error
from punctual_jobs_now;
