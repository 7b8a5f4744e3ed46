-- The head of a lane, in the order in which it is claimed.
-- In: queue, name, how many, from and up to which level (a priority; of suspects 16 more). Out: level, run_at, job. Index: a range of the primary key, no sort.
-- Queued jobs are due by definition, so run_at is not compared with a clock that may have been set back.
select priority, run_at, job from punctual_ready where queue = ?1 and name = ?2 and priority between ?4 and ?5
order by priority desc, run_at, job limit ?3
