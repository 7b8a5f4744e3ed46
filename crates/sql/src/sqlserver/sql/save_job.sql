-- Writes back what an operator's action may change. Index: primary key.
update punctual_jobs set status = @P2, run_at = @P3, attempt = @P4, run = @P5, max_attempts = @P6, updated_at = @P7,
    started_at = @P8, finished_at = @P9, last_event = @P10, waiting_on = @P11
where seq = @P1
