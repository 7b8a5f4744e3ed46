-- A scheduled or retrying job becomes queued. In: job, now, its event. Index: rowid.
update punctual_jobs set status = 'queued', updated_at = ?2, last_event = ?3 where seq = ?1
