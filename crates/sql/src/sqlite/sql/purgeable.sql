-- Jobs that have been deleted for long enough, longest first. updated_at is when they were deleted.
-- In: cutoff, how many. Out: job. Index: the head of punctual_jobs_deleted.
select seq from punctual_jobs where status = 'deleted' and updated_at <= ?1 order by updated_at, seq limit ?2
