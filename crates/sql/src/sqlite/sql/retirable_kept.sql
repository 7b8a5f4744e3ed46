-- Finished jobs that have been kept as long as they wished.
-- In: now, how many. Out: job. Index: the head of punctual_jobs_kept.
select seq from punctual_jobs
where finished_at is not null and keep_for_ms is not null and finished_at + keep_for_ms * 1000 <= ?1
  and status <> 'deleted'
order by finished_at + keep_for_ms * 1000 limit ?2
