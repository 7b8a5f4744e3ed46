-- The last event of a job. Index: rowid, then the primary key of what is running.
select last_event from punctual_jobs_now where seq = ?1
