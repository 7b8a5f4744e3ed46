-- The execution of a job that was cancelled occupies a slot. In: id, run, worker, queue, limit_key, when its lease ends.
insert or ignore into punctual_occupied_slots (job_id, run, worker_id, queue, limit_key, lease_until) values (?1, ?2, ?3, ?4, ?5, ?6)
