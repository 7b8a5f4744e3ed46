-- A job waits no longer. In: run_at, job. Index: primary key.
delete from punctual_waiting where run_at = @P1 and job = @P2
