-- A claimed job for its worker: the columns of punctual_jobs_now, without a look at the running ones. Index: rowid.
select seq, id, name, queue, status, priority, scheduled_at, run_at, attempt, run, crash_count, max_attempts, timeout_ms,
    user_id, correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, waiting_on, created_at, updated_at, started_at,
    finished_at, options, payload, progress, result, error, null, null
from punctual_jobs where seq = ?1
