-- Finished jobs of one status, last finished first.
-- In: status, before which (finished_at, seq), not before which finished_at, how many. Index: punctual_jobs_finished, backwards.
select top (@P5) seq, finished_at, queue, name, user_id, correlation_id, options from punctual_jobs
where status = cast(@P1 as varchar(16)) and finished_at is not null and finished_at <= @P2 and (finished_at < @P2 or seq < @P3) and finished_at >= @P4
order by finished_at desc, seq desc
