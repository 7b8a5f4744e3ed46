-- name: insert_dependencies
-- Stores dependencies, pending or met. In: parents, children, what each child does if its parent fails, whether the parent succeeded (or
-- null).
insert into punctual_dependencies (parent, child, policy, succeeded)
select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bool[])

-- name: mark_parents
-- Marks jobs that other jobs or a workflow depend on. Their rows are locked. In: ids, scheduled_ats, lanes, run_ats. Index: primary keys.
with parents as materialized (
    select * from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::timestamptz[]) u (id, scheduled_at, lane, run_at)),
updated_jobs as (update punctual_jobs j set flow = true from parents where j.scheduled_at = parents.scheduled_at and j.id = parents.id and not j.flow),
updated_ready as (update punctual_ready r set flow = true from parents where r.lane = parents.lane and r.run_at = parents.run_at and r.id = parents.id and not r.flow)
update punctual_running r set flow = true from parents where r.id = any (array[parents.id]) and not r.flow

-- name: parents_of
-- The parents of jobs, pending or ended. In: ids. Out: child, parent. Index: punctual_dependencies_child.
select d.child, d.parent from unnest($1::uuid[]) u (id)
cross join lateral (select child, parent from punctual_dependencies d where d.child = u.id) d

-- name: children_of
-- The children of a job, waiting or not. In: id, the limit. Index: primary key.
select child from punctual_dependencies where parent = $1::uuid order by child limit $2::int8

-- name: relatives
-- The columns of jobs that are shown with their workflow or related jobs. In: ids, scheduled_ats. Out: id, name, node, status.
-- Index: the whole primary key, then that of punctual_running.
select j.id, j.name, j.options::json ->> 'node', case when r.id is null then j.status else 'processing' end
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id

-- name: flow_pending
-- The jobs that wait for some jobs. In: ids. Out: parent, child, what the child does if the parent fails, the number of parents that it
-- waits for, and whether another parent has failed. Index: primary keys.
select d.parent, d.child, d.policy, w.waiting_on, w.any_failed from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_dependencies d where d.parent = u.id and d.succeeded is null) d
cross join lateral (select * from punctual_waiting w where w.id = d.child limit 1) w

-- name: flow_hold
-- Locks waiting jobs, in the order of ids. In: ids. Index: primary key.
select w.id from unnest($1::uuid[]) u (id)
cross join lateral (select id from punctual_waiting w where w.id = u.id for update) w

-- name: flow_meet
-- Records that parents have ended. In: parents, children, whether each parent succeeded. Index: primary key.
update punctual_dependencies d set succeeded = u.succeeded
from unnest($1::uuid[], $2::uuid[], $3::bool[]) u (parent, child, succeeded) where d.parent = u.parent and d.child = u.child

-- name: flow_wait
-- Updates how many parents jobs wait for. In: ids, the numbers of parents, whether another parent has failed. Index: primary key.
update punctual_waiting w set waiting_on = u.waiting_on, any_failed = u.any_failed
from unnest($1::uuid[], $2::int4[], $3::bool[]) u (id, waiting_on, any_failed) where w.id = u.id

-- name: flow_start
-- Makes waiting jobs queued or scheduled, after their parents have ended. In: the time (or null), ids.
-- Out: the lanes that received jobs, with the earliest run_at in each. Index: primary keys.
with deleted_waiting as (delete from punctual_waiting w using unnest($2::uuid[]) u (id) where w.id = any (array[u.id]) returning w.*),
updated_jobs as (
    update {jobs} j set status = case when j.run_at > {now} then 'scheduled' else 'queued' end, run_at = greatest(j.run_at, {now}),
        updated_at = {now}, events = j.events + 1, waiting_on = 0
    from deleted_waiting where j.scheduled_at = deleted_waiting.scheduled_at and j.id = deleted_waiting.id
    returning j.id, j.scheduled_at, j.status, j.lane, j.run_at, j.attempt, j.run, j.events, j.keep_for_ms, j.user_id, j.flow, j.queue, j.{key} as limit_key, deleted_waiting.since),
inserted_ready as (
    insert into punctual_ready (run_at, id, queued_at, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key)
    select run_at, id, {now}, lane, attempt, run, events, keep_for_ms, user_id, flow, limit_key from updated_jobs where status = 'queued'),
inserted_limit_wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, {now}, limit_key from updated_jobs where status = 'queued' and limit_key is not null),
inserted_due as (
    insert into punctual_due (run_at, id, scheduled_at, since, lane, status)
    select run_at, id, scheduled_at, {now}, lane, status from updated_jobs where status = 'scheduled'),
inserted_events as (
    insert into punctual_events (job_id, n, at, previous_at, status) select id, events, {now}, since, status from updated_jobs),
inserted_counts as (
    insert into punctual_counts_new (lane, status, n)
    select lane, 'waiting', -count(*) from updated_jobs group by lane
    union all
    select lane, status, count(*) from updated_jobs group by lane, status)
select lane, min(run_at) from updated_jobs group by lane

-- name: flow_cancel
-- Cancels waiting jobs. In: the time (or null), ids, the reasons. Index: primary keys.
with deleted_waiting as (
    delete from punctual_waiting w using unnest($2::uuid[], $3::text[]) u (id, reason) where w.id = any (array[u.id])
    returning w.*, u.reason),
updated_jobs as (
    update {jobs} j set status = 'cancelled', updated_at = {now}, finished_at = {now}, events = j.events + 1, waiting_on = deleted_waiting.waiting_on
    from deleted_waiting where j.scheduled_at = deleted_waiting.scheduled_at and j.id = deleted_waiting.id
    returning j.id, j.lane, j.name, j.unique_key, j.workflow_id, j.keep_for_ms, j.user_id, j.events, deleted_waiting.since, deleted_waiting.reason),
inserted_events as (
    insert into punctual_events (job_id, n, at, previous_at, lane, final, status, detail)
    select id, events, {now}, since, lane, 2, 'cancelled', reason from updated_jobs),
deleted_keys as (delete from punctual_keys k using updated_jobs where updated_jobs.unique_key is not null and k.job_id = updated_jobs.id),
inserted_expiries as (
    insert into punctual_expiries (expires_at, id)
    select {now} + keep_for_ms * interval '1 millisecond', id from updated_jobs where keep_for_ms is not null),
inserted_ends_pending as (
    insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
    select workflow_id, {now}, 0, 0, count(*) from updated_jobs
    where workflow_id is not null and exists (select from punctual_nodes n where n.job_id = updated_jobs.id) group by workflow_id),
inserted_counts as (
    insert into punctual_counts_new (lane, status, n)
    select lane, s.status, s.sign * count(*) from updated_jobs, (values ('waiting', -1), ('cancelled', 1)) s (status, sign) group by lane, s.status, s.sign),
inserted_pending as (
    insert into punctual_pending_new (user_id, name, n)
    select user_id, name, -count(*) from updated_jobs where user_id is not null group by user_id, name)
select 1

-- name: delete_dependencies
-- Deletes the dependencies of jobs on their parents. In: ids. Index: punctual_dependencies_child.
delete from punctual_dependencies d using unnest($1::uuid[]) u (id) where d.child = any (array[u.id])

-- name: insert_workflow
-- Stores a workflow. In: the time (or null), id, name, the submitter, the number of jobs.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total)
values ($2::uuid, $3::text, $4::text, {now}, {now}, $5::int4)

-- name: workflow
-- A workflow. In: id. Index: primary key; then punctual_ends_pending, which is small.
select w.id, w.name, w.created_by, w.created_at, greatest(w.updated_at, e.at), w.total, (w.succeeded + coalesce(e.succeeded, 0))::int4,
    (w.dead + coalesce(e.dead, 0))::int4, (w.cancelled + coalesce(e.cancelled, 0))::int4
from punctual_workflows w left join lateral (
    select max(e.at) as at, sum(e.succeeded) as succeeded, sum(e.dead) as dead, sum(e.cancelled) as cancelled
    from punctual_ends_pending e where e.workflow = w.id) e on true
where w.id = $1::uuid

-- name: workflows
-- Workflows, latest first. In: the id to start before, the limit. Index: the primary key, backwards; then punctual_ends_pending, which is
-- small.
select w.id, w.name, w.created_by, w.created_at, greatest(w.updated_at, e.at), w.total, (w.succeeded + coalesce(e.succeeded, 0))::int4,
    (w.dead + coalesce(e.dead, 0))::int4, (w.cancelled + coalesce(e.cancelled, 0))::int4
from (select * from punctual_workflows where id < $1::uuid order by id desc limit $2::int8) w left join lateral (
    select max(e.at) as at, sum(e.succeeded) as succeeded, sum(e.dead) as dead, sum(e.cancelled) as cancelled
    from punctual_ends_pending e where e.workflow = w.id) e on true
order by w.id desc

-- name: add_ends
-- Counts jobs of workflows that have ended. In: the time (or null), ids, scheduled_ats, statuses. Index: the whole primary key.
insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
select j.workflow_id, {now}, count(*) filter (where u.status = 'succeeded'), count(*) filter (where u.status = 'dead'),
    count(*) filter (where u.status in ('cancelled', 'deleted'))
from unnest($2::uuid[], $3::timestamptz[], $4::text[]) u (id, scheduled_at, status)
cross join lateral (select j.workflow_id from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
where j.workflow_id is not null and exists (select from punctual_nodes n where n.job_id = u.id) group by j.workflow_id

-- name: change_ends
-- Corrects the counts of a workflow's ended jobs. In: the time (or null), workflow, changes of the three counts.
insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
values ($2::uuid, {now}, $3::int4, $4::int4, $5::int4)

-- name: nodes
-- The nodes of a workflow. In: id. Out: node, job. Index: primary key.
select node, job_id from punctual_nodes where workflow = $1::uuid order by node

-- name: nodes_former
-- The jobs of workflow nodes that other jobs are to take over, with their statuses. Locks the nodes, in the order given, which is the same
-- in all transactions. In: workflows, nodes. Index: primary keys.
select n.workflow, n.node, n.job_id, j.workflow_id is not null, j.status from unnest($1::uuid[], $2::text[]) u (workflow, node)
cross join lateral (select * from punctual_nodes n where n.workflow = u.workflow and n.node = u.node for update) n
left join lateral (
    select * from punctual_jobs j where j.scheduled_at = punctual_scheduled_at(n.job_id) and j.id = n.job_id limit 1) j on true

-- name: insert_nodes
-- Assigns jobs to workflow nodes. In: workflows, nodes, jobs.
insert into punctual_nodes (workflow, node, job_id) select * from unnest($1::uuid[], $2::text[], $3::uuid[])
on conflict (workflow, node) do update set job_id = excluded.job_id
