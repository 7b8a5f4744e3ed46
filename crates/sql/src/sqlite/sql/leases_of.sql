-- What a worker has claimed. Reads the whole table, which is as small as the fleet's concurrency.
-- In: worker, how many. Out: job, its id, whether its worker has confirmed that its handler is about to start, run, worker.
select job, job_id, confirmed, run, worker_id from punctual_running where worker_id = ?1 order by job_id limit ?2
