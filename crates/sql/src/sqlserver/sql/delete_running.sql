-- A worker holds a job no longer. In: id, run, worker, whether something is known to follow from its end.
-- Rows changed: 1 if it did. Index: primary key.
delete from punctual_running where job_id = @P1 and run = @P2 and worker_id = @P3 and flow = @P4
