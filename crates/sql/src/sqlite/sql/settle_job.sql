-- A job comes to rest after an execution. Index: rowid.
-- A result or an error that is absent leaves the former one.
update punctual_jobs set status = ?2, run_at = coalesce(?3, run_at), attempt = ?4, run = ?5,
    crash_count = crash_count + ?6, updated_at = ?7, started_at = ?8, finished_at = ?9,
    result = coalesce(?10, result), error = coalesce(?11, error), last_event = ?12
where seq = ?1
