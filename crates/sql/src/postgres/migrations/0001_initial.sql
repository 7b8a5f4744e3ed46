-- Punctual's tables in PostgreSQL. `select * from punctual_jobs_readable` shows every job as it stands.
--
-- A job's life touches one wide row twice, at enqueue and at settle. In between it moves through three narrow
-- tables: punctual_due (waits for its time), punctual_ready (may be claimed), punctual_running (is held). While a
-- job is held, punctual_jobs still has the status it rested in; punctual_jobs_now has the true one.
--
-- Jobs and labels are partitioned by the day they are scheduled for, logs and events by the day they were written. What has
-- no day of its own is in the partition `…_rest`: jobs for a distant future, and what outlived its day.
--
-- Documents are kept as text, exactly as they came; the views show them as json.

-- A queue, a name and a priority: which there have ever been. Claims go from lane to lane.
create table punctual_lanes (
    lane     integer  generated always as identity primary key,
    queue    text     not null,
    name     text     not null,
    priority smallint not null,
    unique (queue, name, priority)
);

create table punctual_jobs (
    id             uuid        not null,
    scheduled_at   timestamptz not null,
    lane           integer     not null,
    name           text        not null,
    queue          text        not null,
    status         text        not null,
    priority       smallint    not null,
    run_at         timestamptz not null,
    attempt        integer     not null default 0,
    run            integer     not null default 0,
    crash_count    integer     not null default 0,
    max_attempts   integer     not null,
    timeout_ms     bigint      not null,
    user_id        text,
    correlation_id text,
    unique_key     text,
    workflow_id    uuid,
    keep_for_ms    bigint,
    ephemeral      boolean     not null default false,
    waiting_on     integer     not null default 0,
    created_at     timestamptz not null,
    updated_at     timestamptz not null,
    started_at     timestamptz,
    finished_at    timestamptz,
    events         integer     not null default 1,
    extras         text,
    payload        text        not null,
    progress       text,
    result         text,
    error          text,
    primary key (scheduled_at, id)
) partition by range (scheduled_at);
-- No index mentions what a settle changes, so that its update stays on the row's page and touches no index.
create index punctual_jobs_lane on punctual_jobs (lane, scheduled_at, id);
create table punctual_jobs_rest partition of punctual_jobs default with (fillfactor = 45);

-- Users, correlation ids and tags, for lists of their jobs, newest first.
create table punctual_labels (
    kind         text        not null,
    value        text        not null,
    scheduled_at timestamptz not null,
    id           uuid        not null,
    primary key (kind, value, scheduled_at, id)
) partition by range (scheduled_at);
create table punctual_labels_rest partition of punctual_labels default;

create table punctual_logs (
    job_id  uuid        not null,
    run     integer     not null,
    line    integer     not null,
    at      timestamptz not null,
    level   text        not null,
    message text        not null,
    primary key (job_id, run, line, at)
) partition by range (at);
create table punctual_logs_rest partition of punctual_logs default;

-- A job's events are numbered from 1, and found from the last one backwards: each knows when the one before was written.
-- Events come in the order of their time, so that index only ever grows at a few ends, where an index by job would grow all over.
--
-- What another row says is not stored again. That an execution began is told by the event by which it ended, and until then by
-- punctual_running; the two have one number each. That a job was queued at first is told by the job. punctual_events_readable has all.
--
-- The event by which an execution ended says of it what there is to say: its attempt, when it began, how it ended, who ran it.
create table punctual_events (
    job_id      uuid        not null,
    n           integer     not null,
    at          timestamptz not null,
    -- Of the event before, but for the beginning of an execution.
    previous_at timestamptz,
    started_at  timestamptz,
    lane        integer,
    run         integer,
    attempt     integer,
    worker_id   uuid,
    -- Whether the job is finished by this event, until it is retried or deleted: 0 no, 1 dead, 2 cancelled, 3 succeeded.
    final       smallint    not null default 0,
    status      text        not null,
    outcome     text,
    error       text,
    actor       text,
    detail      text
) partition by range (at);
-- For lists and for the retention of finished jobs; and for stories, which look at each of the four ends.
create index punctual_events_final on punctual_events (final, at, job_id);
-- For reports.
create index punctual_events_dead on punctual_events (at) include (lane) where final = 1;
create table punctual_events_rest partition of punctual_events default;

-- Queued jobs, each lane in the order in which it is claimed. For a new job with a small payload, all that its worker needs
-- to know is here too; payload is null otherwise.
create table punctual_ready (
    run_at         timestamptz not null,
    id             uuid        not null,
    queued_at      timestamptz not null,
    lane           integer     not null,
    attempt        integer     not null,
    run            integer     not null,
    events         integer     not null,
    max_attempts   integer,
    timeout_ms     bigint,
    keep_for_ms    bigint,
    ephemeral      boolean,
    user_id        text,
    correlation_id text,
    unique_key     text,
    workflow_id    uuid,
    extras         text,
    payload        text,
    primary key (lane, run_at, id)
);

-- Scheduled and retrying jobs, next first.
create table punctual_due (
    run_at       timestamptz not null,
    id           uuid        not null,
    scheduled_at timestamptz not null,
    since        timestamptz not null,
    lane         integer     not null,
    status       text        not null,
    primary key (run_at, id)
);

-- Held jobs.
create table punctual_running (
    id          uuid        not null primary key,
    worker_id   uuid        not null,
    lease_until timestamptz not null,
    started_at  timestamptz not null,
    queued_at   timestamptz not null,
    run_at      timestamptz not null,
    run         integer     not null,
    attempt     integer     not null,
    events      integer     not null,
    lane        integer     not null,
    keep_for_ms bigint,
    user_id     text,
    -- Whether its worker has said that its handler is about to start: of jobs that run at most once.
    confirmed   boolean     not null default false
);
create index punctual_running_lease on punctual_running (lease_until);

-- Finished jobs that say themselves how long they are kept, first to go first.
create table punctual_kept (
    expires_at timestamptz not null,
    id         uuid        not null,
    primary key (expires_at, id)
);

-- Old days of partitioned tables, when retention looked at them last, and up to when jobs are scheduled that may have gone with the day.
create table punctual_old_days (
    partition        text        not null primary key,
    looked_at        timestamptz not null,
    jobs_gone_before timestamptz
);
-- Goes on with each change to old days, so that retention sees whether there was one while it copied.
create sequence punctual_old_days_changes;

-- Deleted jobs, longest deleted first.
create table punctual_deleted (
    deleted_at  timestamptz not null,
    id          uuid        not null,
    finished_at timestamptz not null,
    primary key (deleted_at, id)
);
create index punctual_deleted_finished on punctual_deleted (finished_at, id);

-- Jobs that are dropped at restart.
create table punctual_ephemeral (
    id         uuid        not null primary key,
    created_at timestamptz not null
);

-- Unique keys in force. The scope is the job's name.
create table punctual_keys (
    scope      text        not null,
    key        text        not null,
    job_id     uuid        not null,
    expires_at timestamptz,
    primary key (scope, key)
);

-- How many jobs there are. Every transaction adds its changes to the table `…_new`, where nobody waits for anybody;
-- upkeep adds them up.
create table punctual_counts (
    lane   integer not null,
    status text    not null,
    n      bigint  not null,
    primary key (lane, status)
);
create table punctual_counts_new (like punctual_counts);

-- How many unfinished jobs users have, likewise.
create table punctual_pending (
    user_id text   not null,
    name    text   not null,
    n       bigint not null,
    primary key (user_id, name)
);
create table punctual_pending_new (like punctual_pending);

-- What ended in each hour, by duration; and what started, by lateness. Likewise.
create table punctual_tallies (
    hour    timestamptz not null,
    lane    integer     not null,
    measure text        not null,
    bucket  smallint    not null,
    n       bigint      not null,
    primary key (hour, lane, measure, bucket)
);
create table punctual_tallies_new (like punctual_tallies);

create table punctual_workers (
    id          uuid        not null primary key,
    host        text        not null,
    pid         bigint      not null,
    queues      text[]      not null,
    names       text[]      not null,
    concurrency bigint      not null,
    running     bigint      not null,
    started_at  timestamptz not null,
    seen_at     timestamptz not null,
    -- The token of a remote worker.
    registered_by uuid
);

-- A freed lock keeps its row, so that its token never goes back.
create table punctual_locks (
    name       text        not null primary key,
    owner      text,
    token      bigint      not null,
    expires_at timestamptz not null
);

create table punctual_dependencies (
    parent uuid not null,
    child  uuid not null,
    primary key (parent, child)
);
create index punctual_dependencies_child on punctual_dependencies (child);

create table punctual_schedules (
    name        text        not null primary key,
    id          uuid        not null unique,
    definition  json        not null,
    enabled     boolean     not null,
    problem     text,
    -- Counts its changes.
    revision    int8        not null,
    -- The last occurrence that was enqueued, the next one, and the job of the last.
    last_run_at timestamptz,
    next_run_at timestamptz,
    last_job    uuid,
    created_at  timestamptz not null,
    updated_at  timestamptz not null,
    updated_by  text        not null
);
create index punctual_schedules_next on punctual_schedules (next_run_at, name) where enabled and next_run_at is not null;

-- What was done to schedules, and by whom.
create table punctual_schedule_events (
    id       int8        not null generated always as identity primary key,
    schedule text        not null,
    at       timestamptz not null,
    actor    text        not null,
    what     text        not null
);
create index punctual_schedule_events_schedule on punctual_schedule_events (schedule, id);

-- The time that a job is scheduled for, which its id carries: 48 bits of milliseconds, and 12 of microseconds after the version.
create function punctual_scheduled_at(id uuid) returns timestamptz language sql immutable strict parallel safe as $$
    select timestamptz 'epoch'
        + ('x' || lpad(substr(replace(id::text, '-', ''), 1, 12), 16, '0'))::bit(64)::int8 * interval '1 millisecond'
        + ('x' || lpad(substr(replace(id::text, '-', ''), 14, 3), 8, '0'))::bit(32)::int4 * interval '1 microsecond'
$$;

-- Every job as it stands now.
create view punctual_jobs_now as
select j.id, j.scheduled_at, j.lane, j.name, j.queue,
       case when r.id is null then j.status else 'processing' end as status,
       j.priority, j.run_at,
       coalesce(r.attempt, j.attempt) as attempt,
       coalesce(r.run, j.run) as run,
       j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id, j.unique_key, j.workflow_id,
       j.keep_for_ms, j.ephemeral, j.waiting_on, j.created_at,
       coalesce(r.started_at, j.updated_at) as updated_at,
       coalesce(r.started_at, j.started_at) as started_at,
       j.finished_at, j.extras, j.payload, j.progress, j.result, j.error,
       r.worker_id, r.lease_until,
       coalesce(r.events, j.events) as events
from punctual_jobs j left join punctual_running r on r.id = j.id;

-- The same, for people: `select name, count(*) from punctual_jobs_readable where status = 'dead'
-- and finished_at >= current_date - 1 group by name`.
create view punctual_jobs_readable as
select 'job_' || replace(id::text, '-', '') as id, name, queue, status, priority, scheduled_at, run_at, attempt,
       max_attempts, crash_count, timeout_ms, user_id, correlation_id, unique_key,
       extras::json -> 'tags' as tags, extras::json ->> 'created_by' as created_by, extras::json ->> 'description' as description,
       extras::json -> 'metadata' as metadata,
       'wrk_' || replace(worker_id::text, '-', '') as worker_id, lease_until,
       created_at, updated_at, started_at, finished_at, progress::json as progress, payload::json as payload, result::json as result,
       error::json ->> 'message' as error
from punctual_jobs_now;

-- Executions.
create view punctual_attempts as
select job_id, run, attempt, outcome as status, worker_id, started_at, at as finished_at, error::json as error
from punctual_events where attempt is not null
union all
select id, run, attempt, 'running', worker_id, started_at, null, null from punctual_running;

create view punctual_attempts_readable as
select 'job_' || replace(job_id::text, '-', '') as job_id, run, attempt, status,
       'wrk_' || replace(worker_id::text, '-', '') as worker_id, started_at, finished_at,
       extract(epoch from finished_at - started_at) * 1000 as duration_ms, error ->> 'message' as error
from punctual_attempts;

create view punctual_events_readable as
select 'job_' || replace(job_id::text, '-', '') as job_id, n, at, status, run, actor, detail
from (
    select job_id, n, at, status, run, actor, detail from punctual_events
    union all
    select job_id, n - 1, started_at, 'processing', run, null, null from punctual_events where started_at is not null
    union all
    select id, events, started_at, 'processing', run, null, null from punctual_running
    union all
    select id, 1, created_at, 'queued', null, null, null from punctual_jobs j
    where not exists (select from punctual_events e where e.at = j.created_at and e.job_id = j.id and e.n = 1)) e;
