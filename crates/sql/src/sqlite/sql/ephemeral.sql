-- Ephemeral jobs that nobody runs. In: how many. Out: job. Index: punctual_jobs_ephemeral.
select j.seq from punctual_jobs j
where j.ephemeral = 1 and not exists (select 1 from punctual_running r where r.job_id = j.id) limit ?1
