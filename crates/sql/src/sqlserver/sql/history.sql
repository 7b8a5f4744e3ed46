-- name: insert_attempt
-- Stores an execution that has ended.
insert into punctual_attempts (job, run, attempt, status, worker_id, started_at, finished_at, error)
select i.job, i.run, i.attempt, i.status, cast(cast(i.worker_id as uniqueidentifier) as binary(16)), i.started_at, i.finished_at, i.error
from openjson(@P1) with (
    job bigint '$[0]', run int '$[1]', attempt int '$[2]', status varchar(16) '$[3]', worker_id char(36) '$[4]', started_at bigint '$[5]',
    finished_at bigint '$[6]', error nvarchar(max) '$[7]') i

-- name: attempts
-- The ended executions of a job. In: seq. Index: primary key.
select run, attempt, status, worker_id, started_at, finished_at, error from punctual_attempts where job = @P1 order by run

-- name: delete_attempts
-- Deletes the executions of a job. In: seq. Index: primary key.
delete t from punctual_attempts t with (forceseek, rowlock) join openjson(@P1) with (job bigint '$[0]') i
on t.job = i.job

-- name: prune_attempts
-- Deletes old executions among those of the oldest jobs. In: cutoff, the number of rows to check. Index: primary key.
delete a from punctual_attempts a
join (select top (@P2) job, run, finished_at from punctual_attempts order by job, run) o on o.job = a.job and o.run = a.run
where o.finished_at <= @P1

-- name: insert_event
-- Stores an event. It refers to the job's previous event, so that the history can be read from its end.
-- In: seq, job, the previous event, at, status, run, actor, detail.
insert into punctual_events (seq, job, previous, at, status, run, actor, detail)
select i.seq, i.job, i.previous, i.at, i.status, i.run, i.actor, i.detail
from openjson(@P1) with (
    seq bigint '$[0]', job bigint '$[1]', previous bigint '$[2]', at bigint '$[3]', status varchar(16) '$[4]', run int '$[5]',
    actor nvarchar(512) '$[6]', detail nvarchar(max) '$[7]') i

-- name: events
-- The events of a job, latest first. In: seq. Index: primary key, one event after the other.
with story (event) as (
    select last_event from punctual_jobs_now where seq = @P1
    union all
    select e.previous from story join punctual_events e on e.seq = story.event where e.previous is not null)
select e.seq, e.at, e.status, e.run, e.actor, e.detail from story join punctual_events e on e.seq = story.event
order by e.seq desc option (maxrecursion 0)

-- name: next_event
-- The number of the next event, which no event ever had, including deleted ones. Index: the end of the primary key.
declare @last bigint = (select coalesce(max(seq), 0) from punctual_events with (readcommittedlock, readpast, rowlock));
select case when last > @last then last else @last end + 1 from punctual_event_numbers with (readcommittedlock) where only_one = 1

-- name: save_event_number
-- Saves the number of the last event, which may be deleted next. Index: the end of the primary key.
declare @last bigint = (select coalesce(max(seq), 0) from punctual_events with (readcommittedlock, readpast, rowlock));
update punctual_event_numbers set last = @last where only_one = 1 and last < @last

-- name: event_numbers
-- The numbers of events after one. In: its number, the limit. Index: a range of the primary key.
select top (@P2) seq from punctual_events with (readcommittedlock, readpast, rowlock) where seq > @P1 order by seq

-- name: changes
-- Events in the order of their numbers, with the columns of their jobs that subscribers filter by, except uncommitted ones. These columns
-- never change, so that they are read without waiting for locks. In: the first number, the number to end before, the limit. Index: primary
-- keys.
select top (@P3) e.seq, e.at, e.status, e.run, e.actor, e.detail, j.id, j.queue, j.name, j.user_id, j.correlation_id, j.workflow_id, j.options
from punctual_events e with (readcommittedlock, readpast, rowlock)
join punctual_jobs j with (forceseek, readuncommitted) on j.seq = e.job
where e.seq >= @P1 and e.seq < @P2 order by e.seq

-- name: delete_events
-- Deletes the events of a job that is not running. In: seq. Index: primary key, one event after the other.
with story (event) as (
    select j.last_event from openjson(@P1) with (seq bigint '$[0]') i join punctual_jobs j with (forceseek) on j.seq = i.seq
    union all
    select e.previous from story join punctual_events e with (forceseek) on e.seq = story.event where e.previous is not null)
delete t from punctual_events t with (forceseek, rowlock) join story on t.seq = story.event option (maxrecursion 0)

-- name: insert_log
-- Stores a log line; a line that exists already (from a write that is retried) is kept.
-- In: id, run, line, at, level, message. Index: the unique one on id.
insert into punctual_logs (job, run, line, at, level, message)
select j.seq, i.run, i.line, i.at, i.level, i.message
from openjson(@P1) with (
    id char(36) '$[0]', run int '$[1]', line int '$[2]', at bigint '$[3]', level varchar(16) '$[4]', message nvarchar(max) '$[5]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16))
where not exists (select 1 from punctual_logs l with (forceseek) where l.job = j.seq and l.run = i.run and l.line = i.line)

-- name: logs
-- The log of a job, oldest line first. In: seq, the limit. Index: primary key.
select top (@P2) run, at, level, message from punctual_logs where job = @P1 order by run, line

-- name: delete_logs
-- Deletes the log of a job. In: seq. Index: primary key.
delete t from punctual_logs t with (forceseek, rowlock) join openjson(@P1) with (job bigint '$[0]') i
on t.job = i.job

-- name: prune_logs
-- Deletes old log lines among those of the oldest jobs. In: cutoff, the number of rows to check. Index: primary key.
delete l from punctual_logs l
join (select top (@P2) job, run, line, at from punctual_logs order by job, run, line) o on o.job = l.job and o.run = l.run and o.line = l.line
where o.at <= @P1

-- name: set_progress
-- Stores the progress of a running job. In: id, run, worker, progress. Index: primary keys.
update punctual_jobs set progress = @P4
where seq = (select job from punctual_running where job_id = @P1 and run = @P2 and worker_id = @P3)
