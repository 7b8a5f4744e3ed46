-- Who holds a job. In: id. Index: primary key.
select job, run, attempt, worker_id, lease_until, started_at, priority, queue, name, keep_for_ms, user_id,
    last_event, flow, limit_key
from punctual_running where job_id = ?1
