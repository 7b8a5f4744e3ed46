-- Keeps a lease that had not run out when that was asked for. In: id, run, worker, when it was asked for, until. Out: a row if it was kept. Index: primary key.
update punctual_running set lease_until = max(lease_until, ?5)
where job_id = ?1 and run = ?2 and worker_id = ?3 and lease_until > ?4
returning 1
