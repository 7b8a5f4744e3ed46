-- A job by its place in the table. Index: rowid, then the primary key of what is running.
select * from punctual_jobs_now where seq = ?1
