-- A job has waited for its parents. In: job, its status, when it may start, now, its event. Index: rowid.
update punctual_jobs set status = ?2, run_at = ?3, updated_at = ?4, last_event = ?5, waiting_on = 0 where seq = ?1
