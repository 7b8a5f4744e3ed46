-- Ephemeral jobs that nobody runs. In: how many. Out: job. Index: rowid, then the primary keys of jobs and running ones.
select e.job from punctual_ephemeral e join punctual_jobs j on j.seq = e.job
where not exists (select 1 from punctual_running r where r.job_id = j.id) limit ?1
