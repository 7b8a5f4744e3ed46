-- The jobs that wait for a job. In: job. Out: each with its place, what it does if the job fails, for how many it waits, and whether
-- one of the others has failed. Index: primary keys, primary key.
select c.seq, c.id, d.policy, c.waiting_on, w.any_failed, i.place
from openjson(@P1) with (job bigint '$[0]', place int '$[1]') i join punctual_dependencies d with (forceseek) on d.parent = i.job
join punctual_jobs c with (forceseek) on c.seq = d.child join punctual_waiting w with (forceseek) on w.run_at = c.run_at and w.job = c.seq
where d.succeeded is null
