-- The workflow of a job. In: job. Index: rowid.
select workflow_id from punctual_jobs where seq = ?1
