-- Queued jobs of one lane and level, longest due first.
-- In: queue, name, level, after which (run_at, seq), before which run_at, how many. Index: a range of punctual_ready, then primary key.
select top (@P7) r.job, r.run_at, j.user_id, j.correlation_id, j.options
from punctual_ready r join punctual_jobs j on j.seq = r.job
where r.queue = @P1 and r.name = @P2 and r.priority = @P3 and r.run_at >= @P4 and (r.run_at > @P4 or r.job > @P5) and r.run_at < @P6
order by r.run_at, r.job
