-- Removes the log of a job. In: seq. Index: primary key.
delete from punctual_logs where job = ?1
