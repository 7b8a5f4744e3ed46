-- A job waits for others. In: run_at, job, whether a parent has failed already.
insert into punctual_waiting (run_at, job, any_failed) values (@P1, @P2, @P3)
