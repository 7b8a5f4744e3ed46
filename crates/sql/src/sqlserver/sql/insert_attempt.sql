-- An execution has ended.
insert into punctual_attempts (job, run, attempt, status, worker_id, started_at, finished_at, error)
values (@P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8)
