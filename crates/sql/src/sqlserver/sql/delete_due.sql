-- Lets a job wait no longer. Rows changed: 1 if it did. Index: the whole primary key.
delete from punctual_due where run_at = @P1 and job = @P2
