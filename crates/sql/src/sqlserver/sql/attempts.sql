-- The executions of a job, the one under way included. In: seq. Index: primary key.
select run, attempt, status, worker_id, started_at, finished_at, error from punctual_attempts where job = @P1 order by run
