-- The keys that have something to start of a queue and name, in the order of their first jobs.
-- In: queue, name, how many. Out: key. Index: a range of the primary key, no sort.
select top (@P3) [key] from punctual_heads where queue = @P1 and name = @P2 order by priority desc, turn, run_at, job
