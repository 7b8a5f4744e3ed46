-- Takes the first jobs of a lane and priority out of it. In: queue, name, priority, the last of them as (run_at, job).
-- Index: a range of the primary key.
delete from punctual_ready where queue = @P1 and name = @P2 and priority = @P3 and (run_at < @P4 or run_at = @P4 and job <= @P5)
