-- The slots of a queue and its keys that are occupied. In: queue, now. Index: a range of punctual_occupied_slots_limit_key. Sorts what it finds, which is little.
select job_id, run, worker_id, limit_key, lease_until from punctual_occupied_slots where queue = @P1 and lease_until > @P2 order by job_id, run
