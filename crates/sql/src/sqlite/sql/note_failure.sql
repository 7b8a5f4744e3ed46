-- A parent of a waiting job has failed. In: job. Index: rowid, primary key.
update punctual_waiting set any_failed = 1 where run_at = (select run_at from punctual_jobs where seq = ?1) and job = ?1
