-- Finished jobs that have been kept as long as they wished.
-- In: now, how many. Out: job. Index: the head of the primary key.
select top (@P2) job from punctual_expiries where expires_at <= @P1 order by expires_at, job
