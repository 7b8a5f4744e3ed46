-- The last event of a job. Index: primary key, then the primary key of what is running.
select last_event from punctual_jobs_now where seq = @P1
