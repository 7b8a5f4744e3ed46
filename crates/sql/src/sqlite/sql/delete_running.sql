-- A worker holds a job no longer. In: id, run, worker, whether something is known to follow from its end.
-- Rows changed: 1 if it did. Index: primary key.
delete from punctual_running where job_id = ?1 and run = ?2 and worker_id = ?3 and flow = ?4
