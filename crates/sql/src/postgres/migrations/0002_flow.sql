-- Jobs that wait for other jobs, workflows, and what is said of queues. Nothing has used the table of dependencies before.
--
-- flow: something follows from the job's end, for its workflow or for jobs that wait for it. What has no such mark is settled without a look.
alter table punctual_jobs add column flow boolean not null default false;
alter table punctual_ready add column flow boolean not null default false;
alter table punctual_running add column flow boolean not null default false;

-- Waiting jobs: the fourth of the narrow tables.
create table punctual_waiting (
    id           uuid        not null primary key,
    run_at       timestamptz not null,
    scheduled_at timestamptz not null,
    since        timestamptz not null,
    lane         integer     not null,
    -- For how many parents, and whether one of the others has failed.
    waiting_on   integer     not null,
    any_failed   boolean     not null
);
create index punctual_waiting_time on punctual_waiting (run_at, id);

drop table punctual_dependencies;
create table punctual_dependencies (
    parent    uuid not null,
    child     uuid not null,
    -- What the child does if the parent fails.
    policy    text not null,
    -- How the parent ended; nothing while the child waits for it.
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

-- Ends of workflows' jobs that are yet to be added up, as for the other counters.
create table punctual_ends_new (
    workflow  uuid        not null,
    at        timestamptz not null,
    succeeded bigint      not null,
    dead      bigint      not null,
    cancelled bigint      not null
);

-- The jobs of workflows and their callbacks, by the names they have there: of each the latest.
create table punctual_nodes (
    workflow uuid not null,
    node     text not null,
    job_id   uuid not null,
    primary key (workflow, node)
);
create index punctual_nodes_job on punctual_nodes (job_id);

-- What was said of queues, and by whom.
create table punctual_queues (
    name       text        not null primary key,
    paused     boolean     not null,
    settings   text        not null,
    -- Counts its changes. A claim knows the sum of all: if it is another by now, it looks again.
    revision   int8        not null,
    updated_at timestamptz not null,
    updated_by text        not null
);

create table punctual_queue_events (
    id    int8        not null generated always as identity primary key,
    queue text        not null,
    at    timestamptz not null,
    actor text        not null,
    what  text        not null
);
create index punctual_queue_events_queue on punctual_queue_events (queue, id);

-- A job's unique key may be in another scope than its name.
create index punctual_keys_job on punctual_keys (job_id);

-- Every job as it stands now.
create or replace view punctual_jobs_now as
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
       j.finished_at, j.extras, j.payload, j.progress, j.result, j.error,
       r.worker_id, r.lease_until,
       coalesce(r.events, j.events) as events
from punctual_jobs j left join punctual_running r on r.id = j.id;

drop view punctual_jobs_readable;
create view punctual_jobs_readable as
select 'job_' || replace(id::text, '-', '') as id, name, queue, status, priority, scheduled_at, run_at, attempt,
       max_attempts, crash_count, timeout_ms, user_id, correlation_id, unique_key, waiting_on,
       'wfl_' || replace(workflow_id::text, '-', '') as workflow_id, extras::json ->> 'node' as node,
       extras::json -> 'tags' as tags, extras::json ->> 'created_by' as created_by, extras::json ->> 'description' as description,
       extras::json -> 'metadata' as metadata,
       'wrk_' || replace(worker_id::text, '-', '') as worker_id, lease_until,
       created_at, updated_at, started_at, finished_at, progress::json as progress, payload::json as payload, result::json as result,
       error::json ->> 'message' as error
from punctual_jobs_now;

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
        from punctual_ends_new e where e.workflow = w.id) e on true) w;
