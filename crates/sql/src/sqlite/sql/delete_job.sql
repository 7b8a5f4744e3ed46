-- Removes a job. In: seq. Index: rowid.
delete from punctual_jobs where seq = ?1
