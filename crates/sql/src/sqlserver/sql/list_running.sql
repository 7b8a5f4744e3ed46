-- Held jobs, longest due first. Reads and sorts the whole table, which is as small as the fleet's concurrency.
-- In: after which (run_at, seq), before which run_at, how many.
select top (@P4) r.job, j.run_at, r.queue, r.name, j.user_id, j.correlation_id, j.options
from punctual_running r join punctual_jobs j on j.seq = r.job
where j.run_at >= @P1 and (j.run_at > @P1 or r.job > @P2) and j.run_at < @P3
order by j.run_at, r.job
