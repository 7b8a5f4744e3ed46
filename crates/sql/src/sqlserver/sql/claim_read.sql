-- A claimed job for its worker: the columns of punctual_jobs_now, without a look at the running ones. Index: primary key.
select j.seq, j.id, j.name, j.queue, j.status, j.priority, j.scheduled_at, j.run_at, j.attempt, j.run, j.crash_count, j.max_attempts, j.timeout_ms,
    j.user_id, j.correlation_id, j.unique_key, j.workflow_id, j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at, j.updated_at, j.started_at,
    j.finished_at, j.options, j.payload, j.progress, j.result, j.error, null, null, i.place
from openjson(@P1) with (seq bigint '$[0]', place int '$[1]') i join punctual_jobs j with (forceseek) on j.seq = i.seq
