-- A parent of a waiting job has failed. In: job. Index: primary key, primary key.
update punctual_waiting set any_failed = 1 where run_at = (select run_at from punctual_jobs where seq = @P1) and job = @P1
