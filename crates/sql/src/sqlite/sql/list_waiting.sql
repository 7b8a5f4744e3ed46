-- Waiting jobs, by the time they may start at the earliest.
-- In: after which (run_at, seq), before which run_at, how many. Index: a range of punctual_waiting, then rowid.
select w.job, w.run_at, j.queue, j.name, j.user_id, j.correlation_id, j.options
from punctual_waiting w join punctual_jobs j on j.seq = w.job
where (w.run_at, w.job) > (?1, ?2) and w.run_at < ?3
order by w.run_at, w.job limit ?4
