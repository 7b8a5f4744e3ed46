-- What a worker needs to run a job. Index: rowid.
select id, name, queue, priority, run_at, attempt, run, crash_count, max_attempts, timeout_ms, user_id, correlation_id,
    unique_key, workflow_id, keep_for_ms, ephemeral, created_at, extras, payload, progress, error,
    last_event
from punctual_jobs where seq = ?1
