-- Punctual's tables in a SQLite file. Instants are microseconds since 1970 (UTC), ids are 16 bytes.
-- The views at the end show all of it in readable form.
--
-- A job's life touches one wide row twice, at enqueue and at settle. In between it moves through three narrow
-- tables: punctual_due (waits for its time), punctual_ready (may be claimed), punctual_running (is held). While a
-- job is held, punctual_jobs still has the status it rested in; punctual_jobs_now has the true one.

create table punctual_jobs (
    seq             integer primary key,
    id              blob    not null unique,
    name            text    not null,
    queue           text    not null,
    status          text    not null,
    priority        integer not null,
    scheduled_at    integer not null,
    run_at          integer not null,
    attempt         integer not null default 0,
    run             integer not null default 0,
    crash_count     integer not null default 0,
    max_attempts    integer not null,
    timeout_ms      integer not null,
    user_id         text,
    correlation_id  text,
    unique_key      text,
    workflow_id     blob,
    keep_for_ms     integer,
    ephemeral       integer not null default 0,
    waiting_on      integer not null default 0,
    created_at      integer not null,
    updated_at      integer not null,
    started_at      integer,
    finished_at     integer,
    extras          text,
    payload         text    not null,
    progress        text,
    result          text,
    error           text
) strict;

-- Few indexes: each one costs every insert and update, used or not. What few jobs have is found by tables of its own.
-- Lists by name, newest first.
create index punctual_jobs_name on punctual_jobs (name, id);
-- Lists of finished jobs, last finished first; retention reads it from the other end.
create index punctual_jobs_finished on punctual_jobs (status, finished_at) where finished_at is not null;

-- Users, correlation ids and tags, for lists of their jobs, newest first.
create table punctual_labels (
    kind  text    not null,
    value text    not null,
    id    blob    not null,
    job   integer not null,
    primary key (kind, value, id)
) strict, without rowid;

-- Finished jobs that say themselves how long they are kept, first to go first.
create table punctual_kept (
    expires_at integer not null,
    job        integer not null,
    primary key (expires_at, job)
) strict, without rowid;

-- Dead jobs, for reports that count them by name.
create table punctual_dead (
    died_at integer not null,
    job     integer not null,
    name    text    not null,
    primary key (died_at, job)
) strict, without rowid;

-- Deleted jobs, longest deleted first.
create table punctual_deleted (
    deleted_at integer not null,
    job        integer not null,
    primary key (deleted_at, job)
) strict, without rowid;

-- Jobs that are dropped at restart.
create table punctual_ephemeral (
    job integer primary key
) strict;

-- Queued jobs, each lane (queue, name) in the order in which it is claimed.
create table punctual_ready (
    queue    text    not null,
    name     text    not null,
    priority integer not null,
    run_at   integer not null,
    job      integer not null,
    primary key (queue, name, priority desc, run_at, job)
) strict, without rowid;

-- Scheduled and retrying jobs, next first.
create table punctual_due (
    run_at integer not null,
    job    integer not null,
    primary key (run_at, job)
) strict, without rowid;

-- Held jobs. As small as the fleet's concurrency, so the search for expired leases needs no index.
create table punctual_running (
    job_id      blob    not null primary key,
    job         integer not null,
    run         integer not null,
    attempt     integer not null,
    worker_id   blob    not null,
    lease_until integer not null,
    started_at  integer not null,
    priority    integer not null,
    queue       text    not null,
    name        text    not null,
    keep_for_ms integer,
    user_id     text,
    -- Whether its worker has said that its handler is about to start: of jobs that run at most once.
    confirmed   integer not null default 0
) strict, without rowid;

-- Executions that have ended.
create table punctual_attempts (
    job         integer not null,
    run         integer not null,
    attempt     integer not null,
    status      text    not null,
    worker_id   blob    not null,
    started_at  integer not null,
    finished_at integer not null,
    error       text,
    primary key (job, run)
) strict, without rowid;

create table punctual_logs (
    job     integer not null,
    run     integer not null,
    line    integer not null,
    at      integer not null,
    level   text    not null,
    message text    not null,
    primary key (job, run, line)
) strict, without rowid;

create table punctual_events (
    seq    integer primary key,
    job    integer not null,
    at     integer not null,
    status text    not null,
    run    integer,
    actor  text,
    detail text
) strict;
create index punctual_events_job on punctual_events (job);

-- Unique keys in force. The scope is the job's name.
create table punctual_keys (
    scope      text    not null,
    key        text    not null,
    job        integer not null,
    expires_at integer,
    primary key (scope, key)
) strict, without rowid;

-- How many jobs there are, kept in step by every transaction.
create table punctual_counts (
    queue  text    not null,
    name   text    not null,
    status text    not null,
    n      integer not null,
    primary key (queue, name, status)
) strict, without rowid;

-- How many unfinished jobs users have, kept in step likewise.
create table punctual_pending (
    user_id text    not null,
    name    text    not null,
    n       integer not null,
    primary key (user_id, name)
) strict, without rowid;

-- What ended in each hour, by duration; and what started, by lateness.
create table punctual_tallies (
    hour    integer not null,
    name    text    not null,
    queue   text    not null,
    measure text    not null,
    bucket  integer not null,
    n       integer not null,
    primary key (hour, name, queue, measure, bucket)
) strict, without rowid;

create table punctual_workers (
    id          blob    not null primary key,
    host        text    not null,
    pid         integer not null,
    queues      text    not null,
    names       text    not null,
    concurrency integer not null,
    running     integer not null,
    started_at  integer not null,
    seen_at     integer not null,
    -- The token of a remote worker.
    registered_by blob
) strict, without rowid;

-- A freed lock keeps its row, so that its token never goes back.
create table punctual_locks (
    name       text    not null primary key,
    owner      text,
    token      integer not null,
    expires_at integer not null
) strict, without rowid;

-- By how much the machine's clock differs from the time since its start, and when it was last set. All processes of a file share it.
create table punctual_clock (
    only_one      integer primary key check (only_one = 1),
    epoch         blob    not null,
    offset_micros integer not null,
    stepped_at    integer,
    step_micros   integer
) strict;

create table punctual_dependencies (
    parent integer not null,
    child  integer not null,
    primary key (parent, child)
) strict, without rowid;
create index punctual_dependencies_child on punctual_dependencies (child);

create table punctual_schedules (
    id           blob    not null primary key,
    name         text    not null unique,
    definition   text    not null,
    enabled      integer not null default 1,
    last_run_at  integer,
    next_run_at  integer,
    created_at   integer not null,
    updated_at   integer not null
) strict, without rowid;
create index punctual_schedules_next on punctual_schedules (next_run_at) where enabled = 1;

-- Every job as it stands now.
create view punctual_jobs_now as
select j.seq, j.id, j.name, j.queue,
       case when r.job is null then j.status else 'processing' end as status,
       j.priority, j.scheduled_at, j.run_at,
       coalesce(r.attempt, j.attempt) as attempt,
       coalesce(r.run, j.run) as run,
       j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id, j.unique_key, j.workflow_id,
       j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at,
       coalesce(r.started_at, j.updated_at) as updated_at,
       coalesce(r.started_at, j.started_at) as started_at,
       j.finished_at, j.extras, j.payload, j.progress, j.result, j.error,
       r.worker_id, r.lease_until
from punctual_jobs j left join punctual_running r on r.job_id = j.id;

-- The same, for people: `select name, count(*) from punctual_jobs_readable where status = 'dead'
-- and finished_at >= date('now', '-1 day') group by name`.
create view punctual_jobs_readable as
select 'job_' || lower(hex(id)) as id, name, queue, status, priority,
       strftime('%Y-%m-%dT%H:%M:%fZ', scheduled_at / 1e6, 'unixepoch') as scheduled_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', run_at / 1e6, 'unixepoch') as run_at,
       attempt, max_attempts, crash_count, timeout_ms, user_id, correlation_id, unique_key,
       extras ->> 'tags' as tags, extras ->> 'created_by' as created_by, extras ->> 'description' as description,
       extras ->> 'metadata' as metadata,
       'wrk_' || lower(hex(worker_id)) as worker_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', lease_until / 1e6, 'unixepoch') as lease_until,
       strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1e6, 'unixepoch') as created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1e6, 'unixepoch') as updated_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1e6, 'unixepoch') as started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', finished_at / 1e6, 'unixepoch') as finished_at,
       progress, payload, result, error ->> 'message' as error
from punctual_jobs_now;

create view punctual_attempts_readable as
select 'job_' || lower(hex(j.id)) as job_id, j.name, a.run, a.attempt, a.status,
       'wrk_' || lower(hex(a.worker_id)) as worker_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', a.started_at / 1e6, 'unixepoch') as started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', a.finished_at / 1e6, 'unixepoch') as finished_at,
       (a.finished_at - a.started_at) / 1000 as duration_ms,
       a.error ->> 'message' as error
from (select job, run, attempt, status, worker_id, started_at, finished_at, error from punctual_attempts
      union all
      select job, run, attempt, 'running', worker_id, started_at, null, null from punctual_running) a
join punctual_jobs j on j.seq = a.job;

create view punctual_events_readable as
select 'job_' || lower(hex(j.id)) as job_id, j.name,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1e6, 'unixepoch') as at,
       e.status, e.run, e.actor, e.detail
from punctual_events e join punctual_jobs j on j.seq = e.job;
