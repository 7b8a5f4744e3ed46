-- A job has waited for its parents. In: job, its status, when it may start, now, its event. Index: primary key.
update punctual_jobs set status = @P2, run_at = @P3, updated_at = @P4, last_event = @P5, waiting_on = 0 where seq = @P1
