-- Removes the executions of a job. In: seq. Index: primary key.
delete from punctual_attempts where job = ?1
