-- A job by its place in the table: the columns of punctual_jobs_now. Index: primary key, then the primary key of what is running.
select j.seq, j.id, j.name, j.queue, case when r.job is null then j.status else 'processing' end, j.priority, j.scheduled_at, j.run_at,
    coalesce(r.attempt, j.attempt), coalesce(r.run, j.run), j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id, j.unique_key,
    j.workflow_id, j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at, coalesce(r.started_at, j.updated_at), coalesce(r.started_at, j.started_at),
    j.finished_at, j.options, j.payload, j.progress, j.result, j.error, r.worker_id, r.lease_until, coalesce(r.last_event, j.last_event), i.place
from openjson(@P1) with (seq bigint '$[0]', place int '$[1]') i
join punctual_jobs j with (forceseek) on j.seq = i.seq left join punctual_running r with (forceseek) on r.job_id = j.id
