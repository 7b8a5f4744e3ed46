-- Another enqueue changes a job. In: job, payload (or null), run_at, now, its event. Index: rowid.
update punctual_jobs set payload = coalesce(?2, payload), run_at = ?3, updated_at = ?4, last_event = ?5 where seq = ?1
