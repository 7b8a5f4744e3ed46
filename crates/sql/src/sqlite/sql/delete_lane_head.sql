-- Takes the first jobs of a lane and priority out of it. In: queue, name, priority, the last of them as (run_at, job).
-- Index: a range of the primary key.
delete from punctual_ready where queue = ?1 and name = ?2 and priority = ?3 and (run_at, job) <= (?4, ?5)
