-- Scheduled and retrying jobs, next first.
-- In: after which (run_at, seq), before which run_at, how many. Index: a range of punctual_due, then rowid.
select d.job, d.run_at, j.status, j.queue, j.name, j.user_id, j.correlation_id, j.options
from punctual_due d join punctual_jobs j on j.seq = d.job
where (d.run_at, d.job) > (?1, ?2) and d.run_at < ?3
order by d.run_at, d.job limit ?4
