-- The slots of a queue and its keys that are occupied. In: queue, now. Reads the whole table, which has few rows, in the order of its primary key.
select job_id, run, worker_id, limit_key, lease_until from punctual_occupied_slots where queue = ?1 and lease_until > ?2 order by job_id, run
