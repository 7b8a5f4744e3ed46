-- Takes a job out of its lane. Rows changed: 1 if it was there. Index: the whole primary key.
delete from punctual_ready where queue = @P1 and name = @P2 and priority = @P3 and run_at = @P4 and job = @P5
