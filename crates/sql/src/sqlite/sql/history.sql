-- name: insert_attempt
-- Stores an execution that has ended.
insert into punctual_attempts (job, run, attempt, status, worker_id, started_at, finished_at, error)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: attempts
-- The ended executions of a job. In: seq. Index: primary key.
select run, attempt, status, worker_id, started_at, finished_at, error from punctual_attempts where job = ?1 order by run

-- name: delete_attempts
-- Deletes the executions of a job. In: seq. Index: primary key.
delete from punctual_attempts where job = ?1

-- name: prune_attempts
-- Deletes old executions among those of the oldest jobs. In: cutoff, the number of rows to check. Index: primary key.
delete from punctual_attempts where (job, run) in (
    select job, run from (select job, run, finished_at from punctual_attempts order by job, run limit ?2)
    where finished_at <= ?1)

-- name: insert_event
-- Stores an event. It refers to the job's previous event, so that the history can be read from its end.
-- In: seq, job, the previous event, at, status, run, actor, detail.
insert into punctual_events (seq, job, previous, at, status, run, actor, detail) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: events
-- The events of a job, latest first. In: seq. Index: rowid, one event after the other.
with recursive story (event) as (
    select last_event from punctual_jobs_now where seq = ?1
    union all
    select e.previous from story cross join punctual_events e on e.seq = story.event where e.previous is not null)
select e.seq, e.at, e.status, e.run, e.actor, e.detail from story cross join punctual_events e on e.seq = story.event

-- name: next_event
-- The number of the next event, which no event ever had, including deleted ones. Index: the end of the primary key.
select max(coalesce((select max(seq) from punctual_events), 0), (select last from punctual_event_numbers where only_one = 1)) + 1

-- name: save_event_number
-- Saves the number of the last event, which may be deleted next. Index: the end of the primary key.
update punctual_event_numbers set last = max(last, (select coalesce(max(seq), 0) from punctual_events)) where only_one = 1

-- name: event_numbers
-- The numbers of events after one. In: its number, the limit. Index: a range of the primary key.
select seq from punctual_events where seq > ?1 order by seq limit ?2

-- name: changes
-- Events in the order in which they were stored, with the columns of their jobs that subscribers filter by. In: the first number, the
-- number to end before, the limit. Index: rowids.
select e.seq, e.at, e.status, e.run, e.actor, e.detail, j.id, j.queue, j.name, j.user_id, j.correlation_id, j.workflow_id, j.options
from punctual_events e cross join punctual_jobs j on j.seq = e.job where e.seq >= ?1 and e.seq < ?2 order by e.seq limit ?3

-- name: delete_events
-- Deletes the events of a job that is not running. In: seq. Index: rowid, one event after the other.
with recursive story (event) as (
    select last_event from punctual_jobs where seq = ?1
    union all
    select e.previous from story cross join punctual_events e on e.seq = story.event where e.previous is not null)
delete from punctual_events where seq in (select event from story)

-- name: insert_log
-- Stores a log line; a line that exists already (from a write that is retried) is kept.
-- In: id, run, line, at, level, message. Index: the unique one on id.
insert into punctual_logs (job, run, line, at, level, message)
select seq, ?2, ?3, ?4, ?5, ?6 from punctual_jobs where id = ?1
on conflict do nothing

-- name: logs
-- The log of a job, oldest line first. In: seq, the limit. Index: primary key.
select run, at, level, message from punctual_logs where job = ?1 order by run, line limit ?2

-- name: delete_logs
-- Deletes the log of a job. In: seq. Index: primary key.
delete from punctual_logs where job = ?1

-- name: prune_logs
-- Deletes old log lines among those of the oldest jobs. In: cutoff, the number of rows to check. Index: primary key.
delete from punctual_logs where (job, run, line) in (
    select job, run, line from (select job, run, line, at from punctual_logs order by job, run, line limit ?2)
    where at <= ?1)

-- name: set_progress
-- Stores the progress of a running job. In: id, run, worker, progress. Index: primary key, then rowid.
update punctual_jobs set progress = ?4
where seq = (select job from punctual_running where job_id = ?1 and run = ?2 and worker_id = ?3)
