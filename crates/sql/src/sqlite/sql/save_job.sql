-- Writes back what an operator's action may change. Index: rowid.
update punctual_jobs set status = ?2, run_at = ?3, attempt = ?4, run = ?5, max_attempts = ?6, updated_at = ?7,
    started_at = ?8, finished_at = ?9, last_event = ?10, waiting_on = ?11
where seq = ?1
