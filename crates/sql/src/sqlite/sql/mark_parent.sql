-- Something follows from a job's end. In: job. Index: rowid.
update punctual_jobs set flow = 1 where seq = ?1 and flow = 0
