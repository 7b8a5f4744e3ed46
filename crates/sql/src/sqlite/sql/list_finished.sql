-- Finished jobs of one status, last finished first.
-- In: status, before which (finished_at, seq), not before which finished_at, how many. Index: punctual_jobs_finished, backwards.
select seq, finished_at, queue, name, user_id, correlation_id, options from punctual_jobs
where status = ?1 and finished_at is not null and (finished_at, seq) < (?2, ?3) and finished_at >= ?4
order by finished_at desc, seq desc limit ?5
