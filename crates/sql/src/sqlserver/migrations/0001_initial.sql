-- Punctual's tables in SQL Server. `select * from punctual_jobs_readable` shows the current state of every job.
--
-- A job's wide row is written twice, at enqueue and at settle. In between the job moves through narrow tables: punctual_due (waits for its
-- run_at), punctual_waiting (waits for other jobs), punctual_ready or punctual_keyed (may be claimed), punctual_running (is leased). While
-- a job is running, punctual_jobs still has the status that it had before; punctual_jobs_now has the current one.
--
-- Times are microseconds since 1970 (UTC), ids are the sixteen bytes that their texts show. Text is compared byte by byte. Keys may be
-- longer than an index allows, so indexes contain their SHA-256 hashes. A line `go` ends a batch.

create table punctual_jobs (
    seq            bigint         not null identity primary key,
    id             binary(16)     not null unique,
    name           nvarchar(256)  collate Latin1_General_BIN2 not null,
    queue          nvarchar(256)  collate Latin1_General_BIN2 not null,
    status         varchar(16)    collate Latin1_General_BIN2 not null,
    priority       tinyint        not null,
    scheduled_at   bigint         not null,
    run_at         bigint         not null,
    attempt        int            not null default 0,
    run            int            not null default 0,
    crash_count    int            not null default 0,
    max_attempts   int            not null,
    timeout_ms     bigint         not null,
    user_id        nvarchar(512)  collate Latin1_General_BIN2,
    correlation_id nvarchar(512)  collate Latin1_General_BIN2,
    unique_key     nvarchar(1024) collate Latin1_General_BIN2,
    workflow_id    binary(16),
    keep_for_ms    bigint,
    ephemeral      bit            not null default 0,
    waiting_on     int            not null default 0,
    created_at     bigint         not null,
    updated_at     bigint         not null,
    started_at     bigint,
    finished_at    bigint,
    options         nvarchar(max)  collate Latin1_General_BIN2,
    payload        nvarchar(max)  not null,
    progress       nvarchar(max),
    result         nvarchar(max),
    error          nvarchar(max),
    last_event     bigint,
    -- Whether a workflow or another job depends on the job's end. A settle searches for them only if this is set.
    flow           bit            not null default 0
)
go
create index punctual_jobs_name on punctual_jobs (name, id)
go
create index punctual_jobs_finished on punctual_jobs (status, finished_at, seq) include (keep_for_ms) where finished_at is not null
go

-- Users, correlation ids, tags and schedules, for lists of their jobs, newest first.
create table punctual_labels (
    kind  varchar(16)   collate Latin1_General_BIN2 not null,
    value nvarchar(512) collate Latin1_General_BIN2 not null,
    id    binary(16)    not null,
    job   bigint        not null,
    primary key nonclustered (kind, value, id)
)
go
create clustered index punctual_labels_job on punctual_labels (job)
go

-- Finished jobs with a retention of their own, earliest expiry first; dead jobs; deleted jobs; jobs that are deleted at restart.
create table punctual_expiries (expires_at bigint not null, job bigint not null, primary key (expires_at, job));
create table punctual_dead (died_at bigint not null, job bigint not null, name nvarchar(256) collate Latin1_General_BIN2 not null, primary key (died_at, job));
create table punctual_deleted (deleted_at bigint not null, job bigint not null, primary key (deleted_at, job));
create table punctual_ephemeral (job bigint not null primary key)
go

-- Queued jobs, each lane in the order in which it is claimed.
create table punctual_ready (
    queue    nvarchar(256) collate Latin1_General_BIN2 not null,
    name     nvarchar(256) collate Latin1_General_BIN2 not null,
    priority tinyint       not null,
    run_at   bigint        not null,
    job      bigint        not null unique clustered,
    primary key nonclustered (queue, name, priority desc, run_at, job)
);
create table punctual_due (run_at bigint not null, job bigint not null, primary key (run_at, job));
create table punctual_waiting (
    run_at     bigint not null,
    job        bigint not null,
    -- Whether one of its parents has failed and it waits for the others.
    any_failed bit    not null,
    primary key (run_at, job)
)
go

-- Running jobs and their leases. limit_key: the concurrency key; empty for a job without one in a limited queue, null for a job without any
-- limit.
create table punctual_running (
    job_id      binary(16)     not null primary key,
    job         bigint         not null,
    run         int            not null,
    attempt     int            not null,
    worker_id   binary(16)     not null,
    lease_until bigint         not null,
    started_at  bigint         not null,
    priority    tinyint        not null,
    queue       nvarchar(256)  collate Latin1_General_BIN2 not null,
    name        nvarchar(256)  collate Latin1_General_BIN2 not null,
    keep_for_ms bigint,
    user_id     nvarchar(512)  collate Latin1_General_BIN2,
    last_event  bigint,
    flow        bit            not null,
    limit_key        nvarchar(1024) collate Latin1_General_BIN2,
    limit_key_hash   binary(32),
    -- Whether its worker has confirmed that its handler is about to start. Used by jobs that run at most once.
    confirmed   bit            not null default 0
)
go
create index punctual_running_lease on punctual_running (lease_until, job)
go
create index punctual_running_limit_key on punctual_running (queue, limit_key_hash) where limit_key is not null
go

create table punctual_attempts (
    job         bigint        not null,
    run         int           not null,
    attempt     int           not null,
    status      varchar(16)   collate Latin1_General_BIN2 not null,
    worker_id   binary(16)    not null,
    started_at  bigint        not null,
    finished_at bigint        not null,
    error       nvarchar(max),
    primary key (job, run)
);
create table punctual_logs (
    job     bigint        not null,
    run     int           not null,
    line    int           not null,
    at      bigint        not null,
    level   varchar(16)   collate Latin1_General_BIN2 not null,
    message nvarchar(max) not null,
    primary key (job, run, line)
);
-- Events, in the order in which they happened; each refers to the previous event of its job.
create table punctual_events (
    seq      bigint        not null primary key,
    job      bigint        not null,
    previous bigint,
    at       bigint        not null,
    status   varchar(16)   collate Latin1_General_BIN2 not null,
    run      int,
    actor    nvarchar(512),
    detail   nvarchar(max)
);
-- Numbers of events. They become visible in the order in which their transactions end, which differs from that of the numbers.
create sequence punctual_event_sequence as bigint start with 1 increment by 1;
-- One row each: the last number that was used, which is not used again after its row is deleted.
create table punctual_event_numbers (only_one int not null primary key, last bigint not null);
create table punctual_notification_numbers (only_one int not null primary key, last bigint not null);
insert into punctual_event_numbers (only_one, last) values (1, 0);
insert into punctual_notification_numbers (only_one, last) values (1, 0)
go

-- Unique keys in force.
create table punctual_keys (
    scope      nvarchar(512)  collate Latin1_General_BIN2 not null,
    [key]      nvarchar(1024) collate Latin1_General_BIN2 not null,
    job        bigint         not null,
    expires_at bigint,
    hash       binary(32)     not null,
    primary key nonclustered (scope, hash)
);

-- Numbers of jobs, numbers of unfinished jobs by user, rollups of each hour. Every change of a number adds a row, so that transactions do
-- not wait for each other; from time to time the rows of a number are merged.
create table punctual_counts (
    queue  nvarchar(256) collate Latin1_General_BIN2 not null,
    name   nvarchar(256) collate Latin1_General_BIN2 not null,
    status varchar(16)   collate Latin1_General_BIN2 not null,
    n      bigint        not null,
    id     bigint        not null identity unique clustered,
    primary key nonclustered (queue, name, status, id)
);
create table punctual_pending (
    user_id nvarchar(512) collate Latin1_General_BIN2 not null,
    name    nvarchar(256) collate Latin1_General_BIN2 not null,
    n       bigint        not null,
    id      bigint        not null identity unique clustered,
    primary key nonclustered (user_id, name, id)
);
create table punctual_rollups (
    hour    bigint        not null,
    name    nvarchar(256) collate Latin1_General_BIN2 not null,
    queue   nvarchar(256) collate Latin1_General_BIN2 not null,
    measure varchar(16)   collate Latin1_General_BIN2 not null,
    bucket  int           not null,
    n       bigint        not null,
    id      bigint        not null identity unique clustered,
    primary key nonclustered (hour, name, queue, measure, bucket, id)
)
go

create table punctual_workers (
    id          binary(16)     not null primary key,
    host        nvarchar(256)  not null,
    pid         bigint         not null,
    queues      nvarchar(max)  not null,
    names       nvarchar(max)  not null,
    concurrency bigint         not null,
    running     bigint         not null,
    started_at  bigint         not null,
    seen_at     bigint         not null,
    -- The token of a remote worker.
    registered_by binary(16)
);
-- A released lock keeps its row, so that its token never decreases.
create table punctual_locks (
    name       nvarchar(512) collate Latin1_General_BIN2 not null primary key nonclustered,
    owner      nvarchar(512) collate Latin1_General_BIN2,
    token      bigint        not null,
    expires_at bigint        not null
)
go

create table punctual_dependencies (
    parent    bigint      not null,
    child     bigint      not null,
    -- What the child does if the parent fails.
    policy    varchar(16) collate Latin1_General_BIN2 not null,
    -- How the parent ended; null while the child waits for it.
    succeeded bit,
    primary key (parent, child)
);
create table punctual_workflows (
    id         binary(16)    not null primary key,
    name       nvarchar(256) not null,
    created_by nvarchar(512),
    created_at bigint        not null,
    updated_at bigint        not null,
    total      int           not null,
    succeeded  int           not null default 0,
    dead       int           not null default 0,
    cancelled  int           not null default 0
);
create table punctual_nodes (
    workflow binary(16)    not null,
    node     nvarchar(256) collate Latin1_General_BIN2 not null,
    job      bigint        not null,
    primary key (workflow, node)
)
go
create index punctual_dependencies_child on punctual_dependencies (child, parent)
go
create index punctual_nodes_job on punctual_nodes (job)
go

create table punctual_schedules (
    name        nvarchar(256) collate Latin1_General_BIN2 not null primary key,
    id          binary(16)    not null unique,
    definition  nvarchar(max) not null,
    enabled     bit           not null,
    problem     nvarchar(max),
    -- Incremented by each change.
    revision    bigint        not null,
    -- The last occurrence that was enqueued, the next one, and the job of the last.
    last_run_at bigint,
    next_run_at bigint,
    last_job    binary(16),
    created_at  bigint        not null,
    updated_at  bigint        not null,
    updated_by  nvarchar(512) not null
);
create table punctual_schedule_events (
    id       bigint        not null identity primary key,
    schedule nvarchar(256) collate Latin1_General_BIN2 not null,
    at       bigint        not null,
    actor    nvarchar(512) not null,
    action   nvarchar(max) not null
);
create table punctual_queues (
    name       nvarchar(256) collate Latin1_General_BIN2 not null primary key,
    paused     bit           not null,
    settings   nvarchar(max) not null,
    -- Incremented by each change.
    revision   bigint        not null,
    updated_at bigint        not null,
    updated_by nvarchar(512) not null,
    limited    bit           not null
);
create table punctual_queue_events (
    id     bigint        not null identity primary key,
    queue  nvarchar(256) collate Latin1_General_BIN2 not null,
    at     bigint        not null,
    actor  nvarchar(512) not null,
    action nvarchar(max) not null
)
go
create index punctual_schedules_next on punctual_schedules (next_run_at, name) where enabled = 1 and next_run_at is not null
go
create index punctual_schedule_events_schedule on punctual_schedule_events (schedule, id)
go
create index punctual_queue_events_queue on punctual_queue_events (queue, id)
go

-- Queued jobs with a concurrency key; and the keys that may start a job: the first job of each, by lane.
create table punctual_keyed (
    queue    nvarchar(256)  collate Latin1_General_BIN2 not null,
    [key]    nvarchar(1024) collate Latin1_General_BIN2 not null,
    name     nvarchar(256)  collate Latin1_General_BIN2 not null,
    priority tinyint        not null,
    run_at   bigint         not null,
    job      bigint         not null unique clustered,
    hash     binary(32)     not null,
    primary key nonclustered (queue, hash, name, priority desc, run_at, job)
);
create table punctual_limit_heads (
    queue    nvarchar(256)  collate Latin1_General_BIN2 not null,
    name     nvarchar(256)  collate Latin1_General_BIN2 not null,
    priority tinyint        not null,
    -- The key's turn in a fair queue; 0 elsewhere.
    turn     bigint         not null,
    run_at   bigint         not null,
    job      bigint         not null unique clustered,
    [key]    nvarchar(1024) collate Latin1_General_BIN2 not null,
    hash     binary(32)     not null,
    primary key nonclustered (queue, name, priority desc, turn, run_at, job)
);
-- Keys that the next claim checks, or that it checks from a time on, when their rate allows more starts.
create table punctual_limit_wakeups (
    queue nvarchar(256)  collate Latin1_General_BIN2 not null,
    at    bigint         not null,
    [key] nvarchar(1024) collate Latin1_General_BIN2 not null,
    hash  binary(32)     not null,
    primary key nonclustered (queue, at, hash)
);
-- Slots that executions of cancelled jobs occupy until their handlers have ended or their leases expire.
create table punctual_occupied_slots (
    job_id      binary(16)     not null,
    run         int            not null,
    worker_id   binary(16)     not null,
    queue       nvarchar(256)  collate Latin1_General_BIN2 not null,
    limit_key        nvarchar(1024) collate Latin1_General_BIN2 not null,
    lease_until bigint         not null,
    limit_key_hash   binary(32)     not null,
    primary key (job_id, run)
);
-- Recent starts in queues with a rate: per key, and with an empty key per queue.
create table punctual_limit_starts (
    queue nvarchar(256)  collate Latin1_General_BIN2 not null,
    [key] nvarchar(1024) collate Latin1_General_BIN2 not null,
    at    bigint         not null,
    n     bigint         not null,
    hash  binary(32)     not null,
    primary key nonclustered (queue, hash, at)
);
-- The turn that each key of a fair queue has reached, and with an empty key that of the queue.
create table punctual_limit_fairness (
    queue nvarchar(256)  collate Latin1_General_BIN2 not null,
    [key] nvarchar(1024) collate Latin1_General_BIN2 not null,
    turn  bigint         not null,
    hash  binary(32)     not null,
    primary key nonclustered (queue, hash)
)
go
create index punctual_keyed_time on punctual_keyed (run_at, job)
go
create clustered index punctual_keys_hash on punctual_keys (hash)
go
create clustered index punctual_limit_wakeups_hash on punctual_limit_wakeups (hash)
go
create clustered index punctual_limit_starts_hash on punctual_limit_starts (hash, at)
go
create clustered index punctual_limit_fairness_hash on punctual_limit_fairness (hash)
go
create index punctual_limit_heads_key on punctual_limit_heads (queue, hash)
go
create index punctual_occupied_slots_limit_key on punctual_occupied_slots (queue, limit_key_hash)
go

create table punctual_notifications (
    id         bigint        not null primary key,
    -- All users, if null.
    user_id    nvarchar(512) collate Latin1_General_BIN2,
    message    nvarchar(max) not null,
    job_id     binary(16),
    created_at bigint        not null
);
create table punctual_tokens (
    id         binary(16)    not null primary key,
    name       nvarchar(512) not null,
    roles      nvarchar(max) not null,
    hash       varbinary(32) not null unique,
    session_of binary(16),
    created_by nvarchar(512) not null,
    created_at bigint        not null,
    expires_at bigint
);
create table punctual_idempotency (
    [key]       nvarchar(1024) collate Latin1_General_BIN2 not null,
    hash        binary(32)     not null primary key,
    fingerprint varbinary(32)  not null,
    at          bigint         not null,
    seed        bigint         not null
)
go
create index punctual_notifications_user on punctual_notifications (user_id, id)
go
create index punctual_idempotency_at on punctual_idempotency (at)
go

-- A large batch must not lock whole tables.
alter table punctual_jobs set (lock_escalation = disable);
alter table punctual_labels set (lock_escalation = disable);
alter table punctual_ready set (lock_escalation = disable);
alter table punctual_due set (lock_escalation = disable);
alter table punctual_running set (lock_escalation = disable);
alter table punctual_attempts set (lock_escalation = disable);
alter table punctual_logs set (lock_escalation = disable);
alter table punctual_events set (lock_escalation = disable);
alter table punctual_ephemeral set (lock_escalation = disable);
alter table punctual_expiries set (lock_escalation = disable);
alter table punctual_dead set (lock_escalation = disable);
alter table punctual_limit_heads set (lock_escalation = disable);
alter table punctual_limit_wakeups set (lock_escalation = disable);
alter table punctual_counts set (lock_escalation = disable);
alter table punctual_pending set (lock_escalation = disable);
alter table punctual_rollups set (lock_escalation = disable)
go

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
from punctual_jobs j left join punctual_running r on r.job_id = j.id
go

-- The same in readable form.
create view punctual_jobs_readable as
select 'job_' + lower(convert(varchar(32), id, 2)) as id, name, queue, status, priority,
       dateadd(second, run_at / 1000000 % 86400, dateadd(day, run_at / 86400000000, cast('1970-01-01' as datetime2))) as run_at,
       attempt, max_attempts, crash_count, timeout_ms, user_id, correlation_id, unique_key, waiting_on,
       'wrk_' + lower(convert(varchar(32), worker_id, 2)) as worker_id,
       dateadd(second, lease_until / 1000000 % 86400, dateadd(day, lease_until / 86400000000, cast('1970-01-01' as datetime2))) as lease_until,
       dateadd(second, created_at / 1000000 % 86400, dateadd(day, created_at / 86400000000, cast('1970-01-01' as datetime2))) as created_at,
       dateadd(second, updated_at / 1000000 % 86400, dateadd(day, updated_at / 86400000000, cast('1970-01-01' as datetime2))) as updated_at,
       dateadd(second, started_at / 1000000 % 86400, dateadd(day, started_at / 86400000000, cast('1970-01-01' as datetime2))) as started_at,
       dateadd(second, finished_at / 1000000 % 86400, dateadd(day, finished_at / 86400000000, cast('1970-01-01' as datetime2))) as finished_at,
       progress, payload, result, json_value(error, '$.message') as error
from punctual_jobs_now;
