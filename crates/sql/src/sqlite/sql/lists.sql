-- name: list_newest
-- Jobs by id, latest first. In: the id to start before, the limit. Index: the unique one on id, backwards.
select j.seq, j.id, case when r.job is null then j.status else 'processing' end, j.queue, j.name, j.user_id,
    j.correlation_id, j.options
from punctual_jobs j left join punctual_running r on r.job_id = j.id
where j.id < ?1 order by j.id desc limit ?2

-- name: list_newest_of_name
-- The same for one name. Index: punctual_jobs_name, backwards.
select j.seq, j.id, case when r.job is null then j.status else 'processing' end, j.queue, j.name, j.user_id,
    j.correlation_id, j.options
from punctual_jobs j left join punctual_running r on r.job_id = j.id
where j.id < ?1 and j.name = ?2 order by j.id desc limit ?3

-- name: list_newest_of_label
-- The same for one user, correlation id or tag. In: the id to start before, kind, value, the limit. Index: primary key, backwards; then
-- rowid.
select j.seq, j.id, case when r.job is null then j.status else 'processing' end, j.queue, j.name, j.user_id,
    j.correlation_id, j.options
from punctual_labels l join punctual_jobs j on j.seq = l.job left join punctual_running r on r.job_id = j.id
where l.kind = ?2 and l.value = ?3 and l.id < ?1 order by l.id desc limit ?4

-- name: list_finished
-- Finished jobs of one status, last finished first.
-- In: status, the (finished_at, seq) to start before, the least finished_at, the limit. Index: punctual_jobs_finished, backwards.
select seq, finished_at, queue, name, user_id, correlation_id, options from punctual_jobs
where status = ?1 and finished_at is not null and (finished_at, seq) < (?2, ?3) and finished_at >= ?4
order by finished_at desc, seq desc limit ?5

-- name: list_due
-- Scheduled and retrying jobs, earliest run_at first.
-- In: the (run_at, seq) to start after, the run_at to end before, the limit. Index: a range of punctual_due, then rowid.
select d.job, d.run_at, j.status, j.queue, j.name, j.user_id, j.correlation_id, j.options
from punctual_due d join punctual_jobs j on j.seq = d.job
where (d.run_at, d.job) > (?1, ?2) and d.run_at < ?3
order by d.run_at, d.job limit ?4

-- name: list_lane
-- Queued jobs of one lane and level, earliest run_at first.
-- In: queue, name, level, then as list_due. Index: a range of punctual_ready, then rowid.
select r.job, r.run_at, j.user_id, j.correlation_id, j.options
from punctual_ready r join punctual_jobs j on j.seq = r.job
where r.queue = ?1 and r.name = ?2 and r.priority = ?3 and (r.run_at, r.job) > (?4, ?5) and r.run_at < ?6
order by r.run_at, r.job limit ?7

-- name: list_keyed
-- Queued jobs with a key, earliest run_at first.
-- In: as list_due. Index: a range of punctual_keyed_time, then rowid.
select k.job, k.run_at, k.queue, k.name, j.user_id, j.correlation_id, j.options
from punctual_keyed k join punctual_jobs j on j.seq = k.job
where (k.run_at, k.job) > (?1, ?2) and k.run_at < ?3
order by k.run_at, k.job limit ?4

-- name: list_running
-- Running jobs, earliest run_at first. Reads and sorts the whole table, which is as small as the fleet's concurrency.
-- In: as list_due.
select r.job, j.run_at, r.queue, r.name, j.user_id, j.correlation_id, j.options
from punctual_running r join punctual_jobs j on j.seq = r.job
where (j.run_at, r.job) > (?1, ?2) and j.run_at < ?3
order by j.run_at, r.job limit ?4

-- name: list_waiting
-- Waiting jobs, earliest possible start first.
-- In: as list_due. Index: a range of punctual_waiting, then rowid.
select w.job, w.run_at, j.queue, j.name, j.user_id, j.correlation_id, j.options
from punctual_waiting w join punctual_jobs j on j.seq = w.job
where (w.run_at, w.job) > (?1, ?2) and w.run_at < ?3
order by w.run_at, w.job limit ?4
