-- Punctual's tables in a SQLite file. Times are microseconds since 1970 (UTC), ids are 16 bytes. The views at the end show all rows
-- in readable form.
--
-- A job's wide row is written twice, at enqueue and at settle. In between the job moves through narrow tables: punctual_due (waits
-- for its run_at), punctual_waiting (waits for other jobs), punctual_ready or punctual_keyed (may be claimed), punctual_running (is
-- leased). While a job is running, punctual_jobs still has the status that it had before; punctual_jobs_now has the current one.

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
    -- The job's last event.
    last_event      integer,
    -- Whether a workflow or another job depends on the job's end. A settle searches for them only if this is set.
    flow            integer not null default 0,
    options          text,
    payload         text    not null,
    progress        text,
    result          text,
    error           text
) strict;

-- Few indexes: each one costs every insert and update, used or not. Columns that few jobs have are indexed by separate tables.
-- For lists by name, newest first.
create index punctual_jobs_name on punctual_jobs (name, id);
-- For lists of finished jobs, last finished first; retention reads it from the other end.
create index punctual_jobs_finished on punctual_jobs (status, finished_at) where finished_at is not null;

-- Users, correlation ids and tags, for lists of their jobs, newest first.
create table punctual_labels (
    kind  text    not null,
    value text    not null,
    id    blob    not null,
    job   integer not null,
    primary key (kind, value, id)
) strict, without rowid;

-- Finished jobs with a retention of their own, earliest expiry first.
create table punctual_expiries (
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

-- Deleted jobs, oldest deletion first.
create table punctual_deleted (
    deleted_at integer not null,
    job        integer not null,
    primary key (deleted_at, job)
) strict, without rowid;

-- Jobs that are deleted at restart.
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

-- Scheduled and retrying jobs, earliest run_at first.
create table punctual_due (
    run_at integer not null,
    job    integer not null,
    primary key (run_at, job)
) strict, without rowid;

-- Queued jobs with a concurrency key, which are not in punctual_ready: those of each key in the order in which they start.
create table punctual_keyed (
    queue    text    not null,
    key      text    not null,
    name     text    not null,
    priority integer not null,
    run_at   integer not null,
    job      integer not null,
    primary key (queue, key, name, priority desc, run_at, job)
) strict, without rowid;
create index punctual_keyed_time on punctual_keyed (run_at, job);

-- Jobs that wait for other jobs.
create table punctual_waiting (
    run_at     integer not null,
    job        integer not null,
    -- Whether one of its parents has failed and it waits for the others.
    any_failed integer not null,
    primary key (run_at, job)
) strict, without rowid;

-- Running jobs and their leases. As small as the fleet's concurrency, so the search for expired leases needs no index.
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
    last_event  integer,
    flow        integer not null default 0,
    -- The concurrency key; empty for a job without one in a limited queue, null for a job without any limit.
    limit_key        text,
    -- Whether its worker has confirmed that its handler is about to start. Used by jobs that run at most once.
    confirmed   integer not null default 0
) strict, without rowid;
create index punctual_running_limit_key on punctual_running (queue, limit_key) where limit_key is not null;

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

-- A job's events are found from its last one backwards: each refers to the previous one. This replaces an index, which would cost
-- every event a second entry in the middle of a large tree; a history is read rarely and has few events.
create table punctual_events (
    seq      integer primary key,
    job      integer not null,
    -- The job's previous event.
    previous integer,
    at       integer not null,
    status   text    not null,
    run      integer,
    actor    text,
    detail   text
) strict;

-- The number of the last event, if that event has been deleted: a reader that follows the numbers would mistake a reused number for
-- an event that it has already read.
create table punctual_event_numbers (
    only_one integer primary key check (only_one = 1),
    last     integer not null
) strict;
insert into punctual_event_numbers (only_one, last) values (1, 0);

-- Unique keys in force. The scope is the job's name.
create table punctual_keys (
    scope      text    not null,
    key        text    not null,
    job        integer not null,
    expires_at integer,
    primary key (scope, key)
) strict, without rowid;

-- Numbers of jobs, updated by every transaction.
create table punctual_counts (
    queue  text    not null,
    name   text    not null,
    status text    not null,
    n      integer not null,
    primary key (queue, name, status)
) strict, without rowid;

-- Numbers of unfinished jobs by user, updated in the same way.
create table punctual_pending (
    user_id text    not null,
    name    text    not null,
    n       integer not null,
    primary key (user_id, name)
) strict, without rowid;

-- Histograms of each hour: ends by duration, starts by lateness.
create table punctual_rollups (
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

-- A released lock keeps its row, so that its token never decreases.
create table punctual_locks (
    name       text    not null primary key,
    owner      text,
    token      integer not null,
    expires_at integer not null
) strict, without rowid;

-- The difference between the machine's clock and the time since its start, and when the clock was last set. Shared by all processes
-- of a file.
create table punctual_clock (
    only_one      integer primary key check (only_one = 1),
    epoch         blob    not null,
    offset_micros integer not null,
    stepped_at    integer,
    step_micros   integer
) strict;

-- Jobs that wait for other jobs.
create table punctual_dependencies (
    parent    integer not null,
    child     integer not null,
    -- What the child does if the parent fails.
    policy    text    not null,
    -- How the parent ended; null while the child waits for it.
    succeeded integer,
    primary key (parent, child)
) strict, without rowid;
create index punctual_dependencies_child on punctual_dependencies (child, parent);

create table punctual_workflows (
    id         blob    not null primary key,
    name       text    not null,
    created_by text,
    created_at integer not null,
    updated_at integer not null,
    total      integer not null,
    succeeded  integer not null default 0,
    dead       integer not null default 0,
    cancelled  integer not null default 0
) strict, without rowid;

-- The jobs of workflows and their callbacks, by node name: the latest of each.
create table punctual_nodes (
    workflow blob    not null,
    node     text    not null,
    job      integer not null,
    primary key (workflow, node)
) strict, without rowid;
create index punctual_nodes_job on punctual_nodes (job);

create table punctual_schedules (
    name        text    not null primary key,
    id          blob    not null unique,
    definition  text    not null,
    enabled     integer not null,
    problem     text,
    -- Incremented by each change.
    revision    integer not null,
    -- The last occurrence that was enqueued, the next one, and the job of the last.
    last_run_at integer,
    next_run_at integer,
    last_job    blob,
    created_at  integer not null,
    updated_at  integer not null,
    updated_by  text    not null
) strict, without rowid;
create index punctual_schedules_next on punctual_schedules (next_run_at, name) where enabled = 1 and next_run_at is not null;

-- The history of schedules.
create table punctual_schedule_events (
    id       integer primary key,
    schedule text    not null,
    at       integer not null,
    actor    text    not null,
    action   text    not null
) strict;
create index punctual_schedule_events_schedule on punctual_schedule_events (schedule, id);

-- Settings of queues, and their history.
create table punctual_queues (
    name       text    not null primary key,
    paused     integer not null,
    settings   text    not null,
    -- Incremented by each change.
    revision   integer not null,
    updated_at integer not null,
    updated_by text    not null,
    limited    integer not null default 0
) strict, without rowid;
create index punctual_queues_limited on punctual_queues (name) where paused = 1 or limited = 1;

create table punctual_queue_events (
    id     integer primary key,
    queue  text    not null,
    at     integer not null,
    actor  text    not null,
    action text    not null
) strict;
create index punctual_queue_events_queue on punctual_queue_events (queue, id);

-- Keys that may start a job: the first job of each, by name. A claim reads only these, regardless of the number of waiting keys.
create table punctual_limit_heads (
    queue    text    not null,
    name     text    not null,
    priority integer not null,
    -- The key's turn in a fair queue; 0 elsewhere.
    turn     integer not null,
    run_at   integer not null,
    job      integer not null,
    key      text    not null,
    primary key (queue, name, priority desc, turn, run_at, job)
) strict, without rowid;
create index punctual_limit_heads_key on punctual_limit_heads (queue, key);

-- Keys that the next claim checks: the limits of their queue changed, or their rate allows more starts from a time on. Changes of a
-- key's jobs need no row: the same transaction checks the key.
create table punctual_limit_wakeups (
    queue text    not null,
    at    integer not null,
    key   text    not null,
    primary key (queue, at, key)
) strict, without rowid;

-- Recent starts in queues with a rate: per key, and with an empty key per queue.
create table punctual_limit_starts (
    queue text    not null,
    key   text    not null,
    at    integer not null,
    n     integer not null,
    primary key (queue, key, at)
) strict, without rowid;

-- The turn that each key of a fair queue has reached, and with an empty key that of the queue. Jobs without a key use a blank,
-- which is not a valid key.
create table punctual_limit_fairness (
    queue text    not null,
    key   text    not null,
    turn  integer not null,
    primary key (queue, key)
) strict, without rowid;

-- Slots that executions of cancelled jobs occupy until their handlers have ended or their leases expire.
create table punctual_occupied_slots (
    job_id      blob    not null,
    run         integer not null,
    worker_id   blob    not null,
    queue       text    not null,
    limit_key        text    not null,
    lease_until integer not null,
    primary key (job_id, run)
) strict, without rowid;
create index punctual_occupied_slots_limit_key on punctual_occupied_slots (queue, limit_key);

-- Messages to users. An id is never used again, so that a reader can resume after it.
create table punctual_notifications (
    id         integer primary key autoincrement,
    -- All users, if null.
    user_id    text,
    message    text    not null,
    job_id     blob,
    created_at integer not null
) strict;
create index punctual_notifications_user on punctual_notifications (user_id, id);

-- API tokens. Only the hash of a secret is stored.
create table punctual_tokens (
    id         blob    primary key,
    name       text    not null,
    roles      text    not null,
    hash       blob    not null unique,
    session_of blob,
    created_by text    not null,
    created_at integer not null,
    expires_at integer
) strict, without rowid;

-- Idempotency: requests whose repetitions have no further effect.
create table punctual_idempotency (
    key         text    primary key,
    fingerprint blob    not null,
    at          integer not null,
    seed        integer not null
) strict, without rowid;
create index punctual_idempotency_at on punctual_idempotency (at);

-- The current state of every job.
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
       j.finished_at, j.options, j.payload, j.progress, j.result, j.error,
       r.worker_id, r.lease_until,
       coalesce(r.last_event, j.last_event) as last_event
from punctual_jobs j left join punctual_running r on r.job_id = j.id;

-- The same in readable form: `select name, count(*) from punctual_jobs_readable where status = 'dead' and finished_at >=
-- date('now', '-1 day') group by name`.
create view punctual_jobs_readable as
select 'job_' || lower(hex(id)) as id, name, queue, status, priority,
       strftime('%Y-%m-%dT%H:%M:%fZ', scheduled_at / 1e6, 'unixepoch') as scheduled_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', run_at / 1e6, 'unixepoch') as run_at,
       attempt, max_attempts, crash_count, timeout_ms, user_id, correlation_id, unique_key, waiting_on,
       'wfl_' || lower(hex(workflow_id)) as workflow_id, options ->> 'node' as node,
       options ->> 'tags' as tags, options ->> 'created_by' as created_by, options ->> 'description' as description,
       options ->> 'metadata' as metadata,
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

create view punctual_dependencies_readable as
select 'job_' || lower(hex(p.id)) as parent, p.name as parent_name, 'job_' || lower(hex(c.id)) as child, c.name as child_name,
       d.policy, case d.succeeded when 1 then 'succeeded' when 0 then 'failed' else 'pending' end as state
from punctual_dependencies d join punctual_jobs p on p.seq = d.parent join punctual_jobs c on c.seq = d.child;

create view punctual_workflows_readable as
select 'wfl_' || lower(hex(id)) as id, name,
       case when total > succeeded + dead + cancelled then 'running' when dead > 0 then 'failed'
            when cancelled > 0 then 'cancelled' else 'succeeded' end as status,
       total, succeeded, dead, cancelled, created_by,
       strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1e6, 'unixepoch') as created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1e6, 'unixepoch') as updated_at
from punctual_workflows;

create view punctual_schedules_readable as
select 'sch_' || lower(hex(id)) as id, name, definition ->> 'cron' as cron, definition ->> 'zone' as zone,
       definition -> 'job' ->> 'name' as job, enabled, problem, definition ->> 'owner' as owner,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_run_at / 1e6, 'unixepoch') as last_run_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', next_run_at / 1e6, 'unixepoch') as next_run_at,
       'job_' || lower(hex(last_job)) as last_job,
       strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1e6, 'unixepoch') as created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1e6, 'unixepoch') as updated_at,
       updated_by
from punctual_schedules;
