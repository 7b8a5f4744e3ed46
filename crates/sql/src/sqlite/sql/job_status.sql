-- The status that a job rests in. Index: rowid.
select status from punctual_jobs where seq = ?1
