-- name: list_newest
-- Jobs by id, latest first. In: the id to start before, the limit. Index: the unique one on id, backwards.
select top (@P2) j.seq, j.id, case when r.job is null then j.status else 'processing' end, j.queue, j.name, j.user_id,
    j.correlation_id, j.options
from punctual_jobs j left join punctual_running r on r.job_id = j.id
where j.id < @P1 order by j.id desc

-- name: list_newest_of_name
-- The same for one name. Index: punctual_jobs_name, backwards.
select top (@P3) j.seq, j.id, case when r.job is null then j.status else 'processing' end, j.queue, j.name, j.user_id,
    j.correlation_id, j.options
from punctual_jobs j left join punctual_running r on r.job_id = j.id
where j.id < @P1 and j.name = @P2 order by j.id desc

-- name: list_newest_of_label
-- The same for one user, correlation id or tag. In: the id to start before, kind, value, the limit. Index: primary key, backwards; then
-- primary key.
select top (@P4) j.seq, j.id, case when r.job is null then j.status else 'processing' end, j.queue, j.name, j.user_id,
    j.correlation_id, j.options
from punctual_labels l join punctual_jobs j on j.seq = l.job left join punctual_running r on r.job_id = j.id
where l.kind = cast(@P2 as varchar(16)) and l.value = @P3 and l.id < @P1 order by l.id desc

-- name: list_finished
-- Finished jobs of one status, last finished first.
-- In: status, the (finished_at, seq) to start before, the least finished_at, the limit. Index: punctual_jobs_finished, backwards.
select top (@P5) seq, finished_at, queue, name, user_id, correlation_id, options from punctual_jobs
where status = cast(@P1 as varchar(16)) and finished_at is not null and finished_at <= @P2 and (finished_at < @P2 or seq < @P3) and finished_at >= @P4
order by finished_at desc, seq desc

-- name: list_due
-- Scheduled and retrying jobs, earliest run_at first.
-- In: the (run_at, seq) to start after, the run_at to end before, the limit. Index: a range of punctual_due, then primary key.
select top (@P4) d.job, d.run_at, j.status, j.queue, j.name, j.user_id, j.correlation_id, j.options
from punctual_due d join punctual_jobs j on j.seq = d.job
where d.run_at >= @P1 and (d.run_at > @P1 or d.job > @P2) and d.run_at < @P3
order by d.run_at, d.job

-- name: list_lane
-- Queued jobs of one lane and level, earliest run_at first.
-- In: queue, name, level, then as list_due. Index: a range of punctual_ready, then primary key.
select top (@P7) r.job, r.run_at, j.user_id, j.correlation_id, j.options
from punctual_ready r join punctual_jobs j on j.seq = r.job
where r.queue = @P1 and r.name = @P2 and r.priority = @P3 and r.run_at >= @P4 and (r.run_at > @P4 or r.job > @P5) and r.run_at < @P6
order by r.run_at, r.job

-- name: list_keyed
-- Queued jobs with a key, earliest run_at first.
-- In: as list_due. Index: a range of punctual_keyed_time, then primary key.
select top (@P4) k.job, k.run_at, k.queue, k.name, j.user_id, j.correlation_id, j.options
from punctual_keyed k join punctual_jobs j on j.seq = k.job
where k.run_at >= @P1 and (k.run_at > @P1 or k.job > @P2) and k.run_at < @P3
order by k.run_at, k.job

-- name: list_running
-- Running jobs, earliest run_at first. Reads and sorts the whole table, which is as small as the fleet's concurrency.
-- In: as list_due.
select top (@P4) r.job, j.run_at, r.queue, r.name, j.user_id, j.correlation_id, j.options
from punctual_running r join punctual_jobs j on j.seq = r.job
where j.run_at >= @P1 and (j.run_at > @P1 or r.job > @P2) and j.run_at < @P3
order by j.run_at, r.job

-- name: list_waiting
-- Waiting jobs, earliest possible start first.
-- In: as list_due. Index: a range of punctual_waiting, then primary key.
select top (@P4) w.job, w.run_at, j.queue, j.name, j.user_id, j.correlation_id, j.options
from punctual_waiting w join punctual_jobs j on j.seq = w.job
where w.run_at >= @P1 and (w.run_at > @P1 or w.job > @P2) and w.run_at < @P3
order by w.run_at, w.job
