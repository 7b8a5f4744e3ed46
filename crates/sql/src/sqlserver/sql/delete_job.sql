-- Removes a job. In: seq. Index: primary key.
delete from punctual_jobs where seq = @P1
