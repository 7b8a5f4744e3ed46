-- Keeps a lease that has not run out. In: id, run, worker, now, until. Rows changed: 1 if it was kept. Index: primary key.
update punctual_running set lease_until = case when lease_until > @P5 then lease_until else @P5 end
where job_id = @P1 and run = @P2 and worker_id = @P3 and lease_until > @P4
