-- The head of a lane, in the order in which it is claimed.
-- In: queue, name, how many. Out: priority, run_at, job. Index: a range of the primary key, no sort.
-- Queued jobs are due by definition, so run_at is not compared with a clock that may have been set back.
select top (@P3) priority, run_at, job from punctual_ready where queue = @P1 and name = @P2
order by priority desc, run_at, job
