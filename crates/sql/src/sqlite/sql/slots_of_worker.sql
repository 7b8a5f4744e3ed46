-- The slots that a worker's executions occupy. In: worker. Reads the whole table, which has few rows.
select job_id, run, queue, limit_key, lease_until from punctual_occupied_slots where worker_id = ?1
