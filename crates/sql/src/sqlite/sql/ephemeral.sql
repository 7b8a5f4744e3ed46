-- Ephemeral jobs from before an instant that nobody runs. In: how many, the instant. Out: job. Index: rowid, then the primary keys of jobs and running ones.
select e.job from punctual_ephemeral e cross join punctual_jobs j on j.seq = e.job
where j.created_at < ?2 and not exists (select 1 from punctual_running r where r.job_id = j.id) limit ?1
