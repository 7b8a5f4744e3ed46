-- Whom a job waits for, or waited for. In: job. Index: punctual_dependencies_child, primary key.
select p.id, i.place from openjson(@P1) with (job bigint '$[0]', place int '$[1]') i
join punctual_dependencies d with (forceseek) on d.child = i.job join punctual_jobs p with (forceseek) on p.seq = d.parent
