-- Jobs that wait for other jobs, workflows, and what is said of queues. Nothing has used the table of dependencies before.
--
-- flow: something follows from the job's end, for its workflow or for jobs that wait for it. What has no such mark is settled without a look.
alter table punctual_jobs add column flow integer not null default 0;
alter table punctual_running add column flow integer not null default 0;

-- Waiting jobs: the fourth of the narrow tables.
create table punctual_waiting (
    run_at     integer not null,
    job        integer not null,
    -- Whether one of its parents has failed and it waits for the others.
    any_failed integer not null,
    primary key (run_at, job)
) strict, without rowid;

drop table punctual_dependencies;
create table punctual_dependencies (
    parent    integer not null,
    child     integer not null,
    -- What the child does if the parent fails.
    policy    text    not null,
    -- How the parent ended; nothing while the child waits for it.
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

-- The jobs of workflows and their callbacks, by the names they have there: of each the latest.
create table punctual_nodes (
    workflow blob    not null,
    node     text    not null,
    job      integer not null,
    primary key (workflow, node)
) strict, without rowid;
create index punctual_nodes_job on punctual_nodes (job);

-- What was said of queues, and by whom.
create table punctual_queues (
    name       text    not null primary key,
    paused     integer not null,
    settings   text    not null,
    -- Counts its changes.
    revision   integer not null,
    updated_at integer not null,
    updated_by text    not null
) strict, without rowid;
create index punctual_queues_paused on punctual_queues (name) where paused = 1;

create table punctual_queue_events (
    id    integer primary key,
    queue text    not null,
    at    integer not null,
    actor text    not null,
    what  text    not null
) strict;
create index punctual_queue_events_queue on punctual_queue_events (queue, id);

drop view punctual_jobs_readable;
create view punctual_jobs_readable as
select 'job_' || lower(hex(id)) as id, name, queue, status, priority,
       strftime('%Y-%m-%dT%H:%M:%fZ', scheduled_at / 1e6, 'unixepoch') as scheduled_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', run_at / 1e6, 'unixepoch') as run_at,
       attempt, max_attempts, crash_count, timeout_ms, user_id, correlation_id, unique_key, waiting_on,
       'wfl_' || lower(hex(workflow_id)) as workflow_id, extras ->> 'node' as node,
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
