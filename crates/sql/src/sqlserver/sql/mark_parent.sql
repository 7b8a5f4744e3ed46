-- Something follows from a job's end. In: job. Index: primary key.
update punctual_jobs set flow = 1 where seq = @P1 and flow = 0
