-- Queued jobs with a key, longest due first.
-- In: after which (run_at, seq), before which run_at, how many. Index: a range of punctual_keyed_time, then primary key.
select top (@P4) k.job, k.run_at, k.queue, k.name, j.user_id, j.correlation_id, j.options
from punctual_keyed k join punctual_jobs j on j.seq = k.job
where k.run_at >= @P1 and (k.run_at > @P1 or k.job > @P2) and k.run_at < @P3
order by k.run_at, k.job
