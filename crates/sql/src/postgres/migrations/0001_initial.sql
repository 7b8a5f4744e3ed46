-- Punctual's tables in PostgreSQL. `select * from punctual_jobs_readable` shows the current state of every job.
--
-- A job's wide row is written twice, at enqueue and at settle. In between the job moves through narrow tables: punctual_due (waits
-- for its run_at), punctual_waiting (waits for other jobs), punctual_ready (may be claimed), punctual_running (is leased). While a
-- job is running, punctual_jobs still has the status that it had before; punctual_jobs_now has the current one.
--
-- Jobs and labels are partitioned by the day of scheduled_at, logs and events by the day on which they were written. The partition
-- `…_rest` has the rows of other days: jobs of the distant future, and rows that outlived their partition.
--
-- Documents are stored as text, byte for byte; the views show them as json.

-- All combinations of queue, name and priority that were ever in use. A claim reads lane by lane. Jobs with a concurrency key have
-- separate lanes (keyed), which only claims that apply limits read.
create table punctual_lanes (
    lane     integer  generated always as identity primary key,
    queue    text     not null,
    name     text     not null,
    priority smallint not null,
    keyed    boolean  not null default false,
    unique (queue, name, priority, keyed)
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
    -- Whether a workflow or another job depends on the job's end. A settle searches for them only if this is set.
    flow           boolean     not null default false,
    options         text,
    payload        text        not null,
    progress       text,
    result         text,
    error          text,
    primary key (scheduled_at, id)
) partition by range (scheduled_at);
-- No index contains a column that a settle changes, so that the update can stay on the row's page (HOT).
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

-- A job's events are numbered from 1 and found from the last one backwards: each has the time of the previous one. Events are
-- inserted in the order of their time, so that this index grows at its end; an index by job would grow everywhere.
--
-- Data of other rows is not stored again. The start of an execution is part of the event that ended it, and until then of
-- punctual_running; start and end have one number each. The initial queued event follows from the job. punctual_events_readable has
-- all events.
--
-- The event that ends an execution describes it: its attempt, start, outcome and worker.
create table punctual_events (
    job_id      uuid        not null,
    n           integer     not null,
    at          timestamptz not null,
    -- The time of the previous event, except starts of executions.
    previous_at timestamptz,
    started_at  timestamptz,
    lane        integer,
    run         integer,
    attempt     integer,
    worker_id   uuid,
    -- Whether this event finished the job, until it is retried or deleted: 0 no, 1 dead, 2 cancelled, 3 succeeded.
    final       smallint    not null default 0,
    status      text        not null,
    outcome     text,
    error       text,
    actor       text,
    detail      text
) partition by range (at);
-- For lists and for the retention of finished jobs; and for histories, which search all four values of final.
create index punctual_events_final on punctual_events (final, at, job_id);
-- For reports.
create index punctual_events_dead on punctual_events (at) include (lane) where final = 1;
create table punctual_events_rest partition of punctual_events default;

-- Queued jobs, each lane in the order in which it is claimed. The row of a new job with a small payload has all that its worker
-- needs; the payload of others is null.
create table punctual_ready (
    run_at         timestamptz not null,
    id             uuid        not null,
    queued_at      timestamptz not null,
    lane           integer     not null,
    attempt        integer     not null,
    run            integer     not null,
    events         integer     not null,
    flow           boolean     not null default false,
    -- The concurrency key.
    limit_key           text,
    -- Whether the job is known to Redis, or will be in the ordinary way: from the process that stored it, or shortly before its
    -- run_at.
    dispatched           boolean     not null default false,
    max_attempts   integer,
    timeout_ms     bigint,
    keep_for_ms    bigint,
    ephemeral      boolean,
    user_id        text,
    correlation_id text,
    unique_key     text,
    workflow_id    uuid,
    options         text,
    payload        text,
    primary key (lane, run_at, id)
);
-- The lane is negated, so that the planner does not search for a key's jobs by scanning the whole lane in the primary key.
create index punctual_ready_limit_key on punctual_ready (limit_key, (-lane), run_at, id) where limit_key is not null;
create index punctual_ready_undispatched on punctual_ready (queued_at) where not dispatched and limit_key is null;

-- Scheduled and retrying jobs, earliest run_at first.
create table punctual_due (
    run_at       timestamptz not null,
    id           uuid        not null,
    scheduled_at timestamptz not null,
    since        timestamptz not null,
    lane         integer     not null,
    status       text        not null,
    -- As in punctual_ready.
    dispatched         boolean     not null default false,
    primary key (run_at, id)
);
create index punctual_due_undispatched on punctual_due (run_at) where not dispatched;

-- Jobs that wait for other jobs.
create table punctual_waiting (
    id           uuid        not null primary key,
    run_at       timestamptz not null,
    scheduled_at timestamptz not null,
    since        timestamptz not null,
    lane         integer     not null,
    -- The number of unfinished parents, and whether another parent has failed.
    waiting_on   integer     not null,
    any_failed   boolean     not null
);
create index punctual_waiting_time on punctual_waiting (run_at, id);

-- Running jobs and their leases.
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
    flow        boolean     not null default false,
    -- The concurrency key; empty for a job without one in a limited queue, null for a job without any limit.
    limit_key        text,
    -- Whether its worker has confirmed that its handler is about to start. Used by jobs that run at most once.
    confirmed   boolean     not null default false
);
create index punctual_running_lease on punctual_running (lease_until);
create index punctual_running_limit_key on punctual_running (limit_key, lane) where limit_key is not null;

-- Finished jobs with a retention of their own, earliest expiry first.
create table punctual_expiries (
    expires_at timestamptz not null,
    id         uuid        not null,
    primary key (expires_at, id)
);

-- Partitions of past days: when retention last checked them, and the scheduled_at up to which jobs may have been dropped with them.
create table punctual_dropped_partitions (
    partition        text        not null primary key,
    looked_at        timestamptz not null,
    jobs_gone_before timestamptz
);
-- Advanced by each change to a past day, so that retention detects changes that were made while it copied.
create sequence punctual_dropped_partitions_changes;

-- Deleted jobs, oldest deletion first.
create table punctual_deleted (
    deleted_at  timestamptz not null,
    id          uuid        not null,
    finished_at timestamptz not null,
    primary key (deleted_at, id)
);
create index punctual_deleted_finished on punctual_deleted (finished_at, id);

-- Jobs that are deleted at restart.
create table punctual_ephemeral (
    id         uuid        not null primary key,
    created_at timestamptz not null
);

-- Unique keys in force. The scope is the job's name, unless the job has another one.
create table punctual_keys (
    scope      text        not null,
    key        text        not null,
    job_id     uuid        not null,
    expires_at timestamptz,
    primary key (scope, key)
);
create index punctual_keys_job on punctual_keys (job_id);

-- Numbers of jobs. Every transaction adds its changes to the table `…_new`, so that transactions do not wait for each other;
-- maintenance adds them up.
create table punctual_counts (
    lane   integer not null,
    status text    not null,
    n      bigint  not null,
    primary key (lane, status)
);
create table punctual_counts_new (like punctual_counts);

-- Numbers of unfinished jobs by user, stored in the same way.
create table punctual_pending (
    user_id text   not null,
    name    text   not null,
    n       bigint not null,
    primary key (user_id, name)
);
create table punctual_pending_new (like punctual_pending);

-- Histograms of each hour: ends by duration, starts by lateness. Stored in the same way.
create table punctual_rollups (
    hour    timestamptz not null,
    lane    integer     not null,
    measure text        not null,
    bucket  smallint    not null,
    n       bigint      not null,
    primary key (hour, lane, measure, bucket)
);
create table punctual_rollups_new (like punctual_rollups);

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

-- A released lock keeps its row, so that its token never decreases.
create table punctual_locks (
    name       text        not null primary key,
    owner      text,
    token      bigint      not null,
    expires_at timestamptz not null
);

-- Jobs that wait for other jobs.
create table punctual_dependencies (
    parent    uuid not null,
    child     uuid not null,
    -- What the child does if the parent fails.
    policy    text not null,
    -- How the parent ended; null while the child waits for it.
    succeeded boolean,
    primary key (parent, child)
);
create index punctual_dependencies_child on punctual_dependencies (child, parent);

create table punctual_workflows (
    id         uuid        not null primary key,
    name       text        not null,
    created_by text,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    total      integer     not null,
    succeeded  integer     not null default 0,
    dead       integer     not null default 0,
    cancelled  integer     not null default 0
);

-- Ends of workflow jobs that are not added up yet, as for the other counters.
create table punctual_ends_pending (
    workflow  uuid        not null,
    at        timestamptz not null,
    succeeded bigint      not null,
    dead      bigint      not null,
    cancelled bigint      not null
);

-- The jobs of workflows and their callbacks, by node name: the latest of each.
create table punctual_nodes (
    workflow uuid not null,
    node     text not null,
    job_id   uuid not null,
    primary key (workflow, node)
);
create index punctual_nodes_job on punctual_nodes (job_id);

-- Settings of queues, and their history.
create table punctual_queues (
    name       text        not null primary key,
    paused     boolean     not null,
    settings   text        not null,
    -- Incremented by each change. A claim knows the sum of all revisions, and reads the settings again if the sum differs.
    revision   int8        not null,
    updated_at timestamptz not null,
    updated_by text        not null
);

create table punctual_queue_events (
    id     int8        not null generated always as identity primary key,
    queue  text        not null,
    at     timestamptz not null,
    actor  text        not null,
    action text        not null
);
create index punctual_queue_events_queue on punctual_queue_events (queue, id);

create table punctual_schedules (
    name        text        not null primary key,
    id          uuid        not null unique,
    definition  json        not null,
    enabled     boolean     not null,
    problem     text,
    -- Incremented by each change.
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

-- The history of schedules.
create table punctual_schedule_events (
    id       int8        not null generated always as identity primary key,
    schedule text        not null,
    at       timestamptz not null,
    actor    text        not null,
    action   text        not null
);
create index punctual_schedule_events_schedule on punctual_schedule_events (schedule, id);

-- Slots that executions of cancelled jobs occupy until their handlers have ended or their leases expire.
create table punctual_occupied_slots (
    job_id      uuid        not null,
    run         integer     not null,
    worker_id   uuid        not null,
    queue       text        not null,
    limit_key        text        not null,
    lease_until timestamptz not null,
    primary key (job_id, run)
);
create index punctual_occupied_slots_limit_key on punctual_occupied_slots (queue, limit_key);

-- Keys that may start a job: the first job of each, by lane. A claim reads only these, regardless of the number of waiting keys.
create table punctual_limit_heads (
    lane   integer     not null,
    -- The key's turn in a fair queue; 0 elsewhere.
    turn   bigint      not null,
    run_at timestamptz not null,
    id     uuid        not null,
    queue  text        not null,
    key    text        not null,
    primary key (lane, turn, run_at, id)
);
create index punctual_limit_heads_key on punctual_limit_heads (queue, key);

-- Keys that the next claim checks: their jobs or limits changed, or their rate allows more starts from a time on. Rows are only
-- added, so that writers do not wait for each other; the claim that has locked the queue's limits deletes them.
create table punctual_limit_wakeups (
    queue text        not null,
    at    timestamptz not null,
    key   text        not null
);
create index punctual_limit_wakeups_time on punctual_limit_wakeups (queue, at);

-- Recent starts in queues with a rate: per key, and with an empty key per queue.
create table punctual_limit_starts (
    queue text        not null,
    key   text        not null,
    at    timestamptz not null,
    n     bigint      not null,
    primary key (queue, key, at)
);

-- The turn that each key of a fair queue has reached, and with an empty key that of the queue. Jobs without a key use a blank,
-- which is not a valid key.
create table punctual_limit_fairness (
    queue text   not null,
    key   text   not null,
    turn  bigint not null,
    primary key (queue, key)
);

-- Dispatch by Redis: docs/adr/0014 describes it.
--
-- One row: the state of the dispatcher.
create table punctual_dispatch (
    only_one  boolean     not null primary key default true check (only_one),
    -- Identifies this database to the dispatcher.
    store_id  uuid        not null default gen_random_uuid(),
    -- The end of its lease: it dispatches jobs until then, unless the lease is extended.
    until     timestamptz not null default '-infinity',
    -- When queues that are assigned to it for the first time may be opened.
    opens_at  timestamptz not null default '-infinity',
    -- The time up to which it knows due jobs; null if it knows none.
    due_until timestamptz,
    -- When a process that claims jobs last failed to reach it.
    unreachable_at timestamptz
);
insert into punctual_dispatch default values;

-- The queues whose jobs the dispatcher dispatches.
create table punctual_dispatch_queues (
    queue    text        not null primary key,
    -- Incremented whenever the queue is assigned to it again.
    epoch    bigint      not null,
    -- No job of the queue is dispatched before this time.
    opens_at timestamptz not null,
    opened_at timestamptz,
    loaded   boolean     not null default false
);

-- Messages to users. An id is never used again, and becomes visible in order, so that a reader can resume after it.
create table punctual_notifications (
    id         bigint      not null primary key,
    -- All users, if null.
    user_id    text,
    message    text        not null,
    job_id     uuid,
    created_at timestamptz not null
);
create index punctual_notifications_user on punctual_notifications (user_id, id);

-- One row: the id of the last message. A transaction that stores messages locks it until its commit, so that no id is
-- visible before a smaller one.
create table punctual_notifications_last (
    only_one boolean not null primary key default true check (only_one),
    id       bigint  not null
) with (fillfactor = 50);
insert into punctual_notifications_last (id) values (0);

-- API tokens. Only the hash of a secret is stored.
create table punctual_tokens (
    id         uuid        not null primary key,
    name       text        not null,
    roles      text[]      not null,
    hash       bytea       not null unique,
    session_of uuid,
    created_by text        not null,
    created_at timestamptz not null,
    expires_at timestamptz
);

-- Idempotency: requests whose repetitions have no further effect.
create table punctual_idempotency (
    key         text        not null primary key,
    fingerprint bytea       not null,
    at          timestamptz not null,
    seed        bigint      not null
);
create index punctual_idempotency_at on punctual_idempotency (at);

-- Jobs that applications stored in their own transactions, which may commit late: the rows of these jobs have the time at which the
-- transaction began and the number of its subtransaction (as does `xmin` here); the top-level transaction decides visibility.
-- docs/adr/0019 describes it.
create table punctual_late_commits (
    written timestamptz not null,
    began   timestamptz not null,
    whole   bigint      not null
);
create index punctual_late_commits_written on punctual_late_commits (written);

-- The scheduled_at of a job, encoded in its id: 48 bits of milliseconds, and 12 bits of microseconds after the version.
create function punctual_scheduled_at(id uuid) returns timestamptz language sql immutable strict parallel safe as $$
    select timestamptz 'epoch'
        + ('x' || lpad(substr(replace(id::text, '-', ''), 1, 12), 16, '0'))::bit(64)::int8 * interval '1 millisecond'
        + ('x' || lpad(substr(replace(id::text, '-', ''), 14, 3), 8, '0'))::bit(32)::int4 * interval '1 microsecond'
$$;

-- The current state of every job.
create view punctual_jobs_now as
select j.id, j.scheduled_at, j.lane, j.name, j.queue,
       case when r.id is null then j.status else 'processing' end as status,
       j.priority, j.run_at,
       coalesce(r.attempt, j.attempt) as attempt,
       coalesce(r.run, j.run) as run,
       j.crash_count, j.max_attempts, j.timeout_ms, j.user_id, j.correlation_id, j.unique_key, j.workflow_id,
       j.keep_for_ms, j.ephemeral,
       coalesce(case when j.status = 'waiting' then (select w.waiting_on from punctual_waiting w where w.id = j.id) end, j.waiting_on)
           as waiting_on,
       j.created_at,
       coalesce(r.started_at, j.updated_at) as updated_at,
       coalesce(r.started_at, j.started_at) as started_at,
       j.finished_at, j.options, j.payload, j.progress, j.result, j.error,
       r.worker_id, r.lease_until,
       coalesce(r.events, j.events) as events
from punctual_jobs j left join punctual_running r on r.id = j.id;

-- The same in readable form: `select name, count(*) from punctual_jobs_readable where status = 'dead' and finished_at >=
-- current_date - 1 group by name`.
create view punctual_jobs_readable as
select 'job_' || replace(id::text, '-', '') as id, name, queue, status, priority, scheduled_at, run_at, attempt,
       max_attempts, crash_count, timeout_ms, user_id, correlation_id, unique_key, waiting_on,
       'wfl_' || replace(workflow_id::text, '-', '') as workflow_id, options::json ->> 'node' as node,
       options::json -> 'tags' as tags, options::json ->> 'created_by' as created_by, options::json ->> 'description' as description,
       options::json -> 'metadata' as metadata,
       'wrk_' || replace(worker_id::text, '-', '') as worker_id, lease_until,
       created_at, updated_at, started_at, finished_at, progress::json as progress, payload::json as payload, result::json as result,
       error::json ->> 'message' as error
from punctual_jobs_now;

-- Executions, ended and running.
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

create view punctual_dependencies_readable as
select 'job_' || replace(parent::text, '-', '') as parent, 'job_' || replace(child::text, '-', '') as child, policy,
       case succeeded when true then 'succeeded' when false then 'failed' else 'pending' end as state
from punctual_dependencies;

create view punctual_workflows_readable as
select 'wfl_' || replace(id::text, '-', '') as id, name,
       case when total > succeeded + dead + cancelled then 'running' when dead > 0 then 'failed'
            when cancelled > 0 then 'cancelled' else 'succeeded' end as status,
       total, succeeded, dead, cancelled, created_by, created_at, updated_at
from (
    select w.id, w.name, w.created_by, w.created_at, greatest(w.updated_at, e.at) as updated_at, w.total,
        w.succeeded + coalesce(e.succeeded, 0) as succeeded, w.dead + coalesce(e.dead, 0) as dead,
        w.cancelled + coalesce(e.cancelled, 0) as cancelled
    from punctual_workflows w left join lateral (
        select max(e.at) as at, sum(e.succeeded) as succeeded, sum(e.dead) as dead, sum(e.cancelled) as cancelled
        from punctual_ends_pending e where e.workflow = w.id) e on true) w;
