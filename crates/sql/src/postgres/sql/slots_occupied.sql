-- The slots of a queue and its keys that are occupied. In: queue, the time. Index: a range of punctual_occupied_slots_limit_key. Sorts what it finds, which is little.
select job_id, run, worker_id, nullif(limit_key, ''), lease_until from punctual_occupied_slots
where queue = $1::text and lease_until > $2::timestamptz order by job_id, run
