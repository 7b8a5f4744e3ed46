-- How far a held job has come. In: id, run, worker, progress. Index: primary key, then rowid.
update punctual_jobs set progress = ?4
where seq = (select job from punctual_running where job_id = ?1 and run = ?2 and worker_id = ?3)
