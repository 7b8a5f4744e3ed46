-- A scheduled or retrying job becomes queued.
-- In: job, now. Out: what its lane needs. Index: rowid.
update punctual_jobs set status = 'queued', updated_at = ?2 where seq = ?1
returning queue, name, priority
