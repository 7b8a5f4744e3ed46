-- Records that a handler is about to start, if its lease has not run out. In: id, run, worker, now. Out: a row if it was held.
-- Index: primary key.
update punctual_running set confirmed = 1
where job_id = ?1 and run = ?2 and worker_id = ?3 and lease_until > ?4
returning 1
