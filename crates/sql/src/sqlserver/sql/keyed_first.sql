-- The first jobs of a key and name, in the order in which they start.
-- In: queue, key, name, how many. Out: priority, run_at, job. Index: a range of the primary key, no sort.
select top (@P4) priority, run_at, job from punctual_keyed where queue = @P1 and hash = hashbytes('sha2_256', @P2) and name = @P3
order by priority desc, run_at, job
