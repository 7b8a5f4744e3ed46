-- Leases that have run out, longest ago first. Reads the whole table, which is as small as the fleet's concurrency.
-- In: now, how many. Out: job, its id, whether its worker has confirmed that its handler is about to start, run, worker.
select job, job_id, confirmed, run, worker_id from punctual_running where lease_until <= ?1 order by lease_until, job limit ?2
