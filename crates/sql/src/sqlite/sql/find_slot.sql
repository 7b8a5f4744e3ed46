-- The slot that an execution in a worker's hands occupies. In: id, run, worker. Index: primary key.
select job_id, run, queue, limit_key, lease_until from punctual_occupied_slots where job_id = ?1 and run = ?2 and worker_id = ?3
