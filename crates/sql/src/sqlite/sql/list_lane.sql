-- Queued jobs of one lane and level, longest due first.
-- In: queue, name, level, after which (run_at, seq), before which run_at, how many. Index: a range of punctual_ready, then rowid.
select r.job, r.run_at, j.user_id, j.correlation_id, j.options
from punctual_ready r join punctual_jobs j on j.seq = r.job
where r.queue = ?1 and r.name = ?2 and r.priority = ?3 and (r.run_at, r.job) > (?4, ?5) and r.run_at < ?6
order by r.run_at, r.job limit ?7
