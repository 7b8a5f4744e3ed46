-- A job by its place in the table. Index: primary key, then the primary key of what is running.
select * from punctual_jobs_now where seq = @P1
