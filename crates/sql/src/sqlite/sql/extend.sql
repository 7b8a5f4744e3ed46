-- Keeps a lease that has not run out. In: id, run, worker, now, until. Out: a row if it was kept. Index: primary key.
update punctual_running set lease_until = max(lease_until, ?5)
where job_id = ?1 and run = ?2 and worker_id = ?3 and lease_until > ?4
returning 1
