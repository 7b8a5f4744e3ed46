-- Jobs that have been deleted for long enough, longest first.
-- In: cutoff, how many. Out: job. Index: the head of the primary key.
select top (@P2) job from punctual_deleted where deleted_at <= @P1 order by deleted_at, job
