-- name: import_job
-- Imports a job, unless its id exists. Jobs are imported latest first; a later one gets a lesser seq, and is sorted before others of its
-- time. In: a job's columns. Rows changed: 1, or 0 if the id exists. Index: the unique one on id.
insert into punctual_jobs (seq, id, name, queue, status, priority, scheduled_at, run_at, attempt, run, crash_count, max_attempts, timeout_ms,
    user_id, correlation_id, unique_key, workflow_id, keep_for_ms, ephemeral, waiting_on, created_at, updated_at, started_at, finished_at,
    options, payload, progress, result, error, flow)
values ((select coalesce(min(seq), 1099511627777) - 1 from punctual_jobs), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
    ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)
on conflict (id) do nothing

-- name: import_last_event
-- Stores the last event of an imported job. In: seq, the event. Index: primary key.
update punctual_jobs set last_event = ?2 where seq = ?1

-- name: import_key
-- Imports a unique key, unless it is taken. In: scope, key, job, expires_at. Index: primary key.
insert into punctual_keys (scope, key, job, expires_at) values (?1, ?2, ?3, ?4) on conflict (scope, key) do nothing

-- name: dependencies_of
-- The parents of a job, pending or ended. In: id. Out: parent, what the job does if the parent fails, whether the parent succeeded (or
-- null). Index: the unique one on id, then punctual_dependencies_child.
select p.id, d.policy, d.succeeded from punctual_jobs c join punctual_dependencies d on d.child = c.seq
join punctual_jobs p on p.seq = d.parent where c.id = ?1

-- name: import_dependency
-- Imports a dependency, unless it exists. In: ids of parent and child, what the child does if the parent fails, whether the parent
-- succeeded. Rows changed: 1, or 0 if it exists or one of the two jobs does not. Index: the unique one on id, twice.
insert into punctual_dependencies (parent, child, policy, succeeded)
select p.seq, c.seq, ?3, ?4 from punctual_jobs p, punctual_jobs c where p.id = ?1 and c.id = ?2
on conflict (parent, child) do nothing

-- name: import_workflow
-- Imports a workflow. In: its columns. Rows changed: 1, or 0 if it exists. Index: primary key.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total, succeeded, dead, cancelled)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) on conflict (id) do nothing

-- name: import_node
-- Imports the node of a job in its workflow. In: workflow, node, id of the job. Index: the unique one on id.
insert into punctual_nodes (workflow, node, job) select ?1, ?2, seq from punctual_jobs where id = ?3
on conflict (workflow, node) do nothing

-- name: import_schedule
-- Imports a schedule. In: its columns. Rows changed: 1, or 0 if the name exists. Index: primary key.
insert into punctual_schedules (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at,
    updated_by)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) on conflict do nothing

-- name: import_queue
-- Imports the settings of a queue. In: its columns. Rows changed: 1, or 0 if it has settings. Index: primary key.
insert into punctual_queues (name, paused, settings, revision, updated_at, updated_by, limited)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict (name) do nothing

-- name: import_rollup
-- Imports a rollup. In: hour, name, queue, measure, bucket, the count. Rows changed: 0 if it exists. Index: primary key.
insert into punctual_rollups (hour, name, queue, measure, bucket, n) values (?1, ?2, ?3, ?4, ?5, ?6) on conflict do nothing

-- name: import_notification
-- Imports a message. In: its id, user, message, job, time. Rows changed: 0 if it exists. Index: primary key.
insert into punctual_notifications (id, user_id, message, job_id, created_at) values (?1, ?2, ?3, ?4, ?5) on conflict (id) do nothing
