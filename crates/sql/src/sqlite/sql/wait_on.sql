-- A job waits for fewer parents. In: job, for how many. Index: rowid.
update punctual_jobs set waiting_on = ?2 where seq = ?1
