-- The jobs that wait for a job. In: job. Out: each with its place, what it does if the job fails, for how many it waits, and whether
-- one of the others has failed. Index: primary keys, primary key.
select c.seq, c.id, d.policy, c.waiting_on, w.any_failed
from punctual_dependencies d join punctual_jobs c on c.seq = d.child join punctual_waiting w on w.run_at = c.run_at and w.job = c.seq
where d.parent = @P1 and d.succeeded is null
