-- Ephemeral jobs from before an instant that nobody runs. In: how many, the instant. Out: job. Index: primary key, then the primary keys of jobs and running ones.
select top (@P1) e.job from punctual_ephemeral e with (readcommittedlock, readpast, rowlock) join punctual_jobs j with (forceseek) on j.seq = e.job
where j.created_at < @P2 and not exists (select 1 from punctual_running r where r.job_id = j.id)
