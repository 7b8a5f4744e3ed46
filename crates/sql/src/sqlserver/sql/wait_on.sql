-- A job waits for fewer parents. In: job, for how many. Index: primary key.
update punctual_jobs set waiting_on = @P2 where seq = @P1
