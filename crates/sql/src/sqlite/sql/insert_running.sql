-- A worker takes a job: the lease, and the fence that every settle must pass.
insert into punctual_running (job_id, job, run, attempt, worker_id, lease_until, started_at, priority, queue, name,
    keep_for_ms, user_id, last_event, flow, limit_key)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
