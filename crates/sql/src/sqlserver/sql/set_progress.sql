-- How far a held job has come. In: id, run, worker, progress. Index: primary key, then primary key.
update punctual_jobs set progress = @P4
where seq = (select job from punctual_running where job_id = @P1 and run = @P2 and worker_id = @P3)
