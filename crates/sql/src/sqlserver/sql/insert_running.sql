-- A worker takes a job: the lease, and the fence that every settle must pass.
insert into punctual_running (job_id, job, run, attempt, worker_id, lease_until, started_at, priority, queue, name,
    keep_for_ms, user_id, last_event, flow, gate)
values (@P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9, @P10, @P11, @P12, @P13, @P14, @P15)
