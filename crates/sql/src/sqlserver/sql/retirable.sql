-- Finished jobs of one status that have been kept long enough, oldest first.
-- In: status, cutoff, how many. Out: job. Index: the head of punctual_jobs_finished.
select top (@P3) seq from punctual_jobs
where status = cast(@P1 as varchar(16)) and finished_at is not null and finished_at <= @P2 and keep_for_ms is null
order by finished_at, seq
