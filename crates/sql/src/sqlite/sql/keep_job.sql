-- Says how long a finished job is kept. In: job, milliseconds after its end. Index: rowid.
update punctual_jobs set keep_for_ms = ?2 where seq = ?1
