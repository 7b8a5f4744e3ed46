-- The workflow of a job that has its place there, if no other has taken it. In: job. Index: primary key, punctual_nodes_job.
select j.workflow_id, i.place from openjson(@P1) with (job bigint '$[0]', place int '$[1]') i
join punctual_jobs j with (forceseek) on j.seq = i.job join punctual_nodes n with (forceseek) on n.job = j.seq
