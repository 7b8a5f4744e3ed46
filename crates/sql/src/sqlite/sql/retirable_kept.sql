-- Finished jobs that have been kept as long as they wished.
-- In: now, how many. Out: job. Index: the head of the primary key.
select job from punctual_expiries where expires_at <= ?1 order by expires_at, job limit ?2
