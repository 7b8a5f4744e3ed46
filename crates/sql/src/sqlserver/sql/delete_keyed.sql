-- Takes a job from its place among the queued ones of its key. Index: the whole primary key.
delete from punctual_keyed where queue = @P1 and hash = hashbytes('sha2_256', @P2) and name = @P3 and priority = @P4 and run_at = @P5 and job = @P6
