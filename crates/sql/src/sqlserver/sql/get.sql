-- A job by its id. Index: the unique one on id, then the primary key of what is running.
select * from punctual_jobs_now where id = @P1
