-- name: insert_waiting
-- Adds a job that waits for other jobs. In: run_at, job, whether a parent has failed already.
insert into punctual_waiting (run_at, job, any_failed) values (?1, ?2, ?3)

-- name: delete_waiting
-- Removes a job from the waiting jobs. In: run_at, job. Index: primary key.
delete from punctual_waiting where run_at = ?1 and job = ?2

-- name: wait_on
-- Updates how many parents a job waits for. In: job, the number of parents. Index: rowid.
update punctual_jobs set waiting_on = ?2 where seq = ?1

-- name: record_parent_failure
-- Records that a parent of a waiting job has failed. In: job. Index: rowid, primary key.
update punctual_waiting set any_failed = 1 where run_at = (select run_at from punctual_jobs where seq = ?1) and job = ?1

-- name: start_job
-- Starts a job whose parents have ended. In: job, its status, its run_at, now, its event. Index: rowid.
update punctual_jobs set status = ?2, run_at = ?3, updated_at = ?4, last_event = ?5, waiting_on = 0 where seq = ?1

-- name: parent
-- The state of a parent. In: id. Out: seq, status. Index: the unique one on id, then the primary key of punctual_running.
select j.seq, case when r.job is null then j.status else 'processing' end
from punctual_jobs j left join punctual_running r on r.job_id = j.id where j.id = ?1

-- name: insert_dependency
-- Stores a dependency, pending or met. In: parent, child, what the child does if the parent fails, whether the parent succeeded (or null).
insert into punctual_dependencies (parent, child, policy, succeeded) values (?1, ?2, ?3, ?4)

-- name: meet_dependency
-- Records that a parent has ended. In: parent, child, whether the parent succeeded. Index: primary key.
update punctual_dependencies set succeeded = ?3 where parent = ?1 and child = ?2

-- name: mark_parent
-- Marks a job that another job or a workflow depends on. In: job. Index: rowid.
update punctual_jobs set flow = 1 where seq = ?1 and flow = 0

-- name: mark_running_parent
-- Marks its current execution, if there is one. In: id. Index: primary key.
update punctual_running set flow = 1 where job_id = ?1 and flow = 0

-- name: pending_children
-- The jobs that wait for a job. In: job. Out: seq, id, what the child does if the job fails, the number of parents that it waits for, and
-- whether another parent has failed. Index: primary keys, rowid.
select c.seq, c.id, d.policy, c.waiting_on, w.any_failed
from punctual_dependencies d join punctual_jobs c on c.seq = d.child join punctual_waiting w on w.run_at = c.run_at and w.job = c.seq
where d.parent = ?1 and d.succeeded is null

-- name: parents_of
-- The ids of a job's parents, pending or ended. In: job. Index: punctual_dependencies_child, rowid.
select p.id from punctual_dependencies d join punctual_jobs p on p.seq = d.parent where d.child = ?1

-- name: parents
-- The parents of a job. In: job. Out: id, node, status. Index: punctual_dependencies_child, rowid, the primary key of punctual_running.
select p.id, p.options ->> 'node', case when r.job is null then p.status else 'processing' end
from punctual_dependencies d join punctual_jobs p on p.seq = d.parent left join punctual_running r on r.job_id = p.id
where d.child = ?1

-- name: children
-- The children of a job, oldest first. In: job, the limit. Out: id, node, status. Index: primary keys, rowid.
select c.id, c.options ->> 'node', case when r.job is null then c.status else 'processing' end
from punctual_dependencies d join punctual_jobs c on c.seq = d.child left join punctual_running r on r.job_id = c.id
where d.parent = ?1 order by d.child limit ?2

-- name: delete_dependencies
-- Deletes the dependencies of a job on its parents. In: job. Index: punctual_dependencies_child.
delete from punctual_dependencies where child = ?1

-- name: delete_dependents
-- Deletes the dependencies of a job's children on it. In: job. Index: primary key.
delete from punctual_dependencies where parent = ?1

-- name: insert_workflow
-- Stores a workflow. In: id, name, the submitter, now, the number of jobs.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total) values (?1, ?2, ?3, ?4, ?4, ?5)

-- name: workflow_of
-- The workflow of a job, unless another job has taken its node. In: job. Index: rowid, punctual_nodes_job.
select j.workflow_id from punctual_jobs j join punctual_nodes n on n.job = j.seq where j.seq = ?1

-- name: workflow
-- A workflow. In: id. Index: primary key.
select id, name, created_by, created_at, updated_at, total, succeeded, dead, cancelled from punctual_workflows where id = ?1

-- name: workflows
-- Workflows, latest first. In: the id to start before, the limit. Index: the primary key, backwards.
select id, name, created_by, created_at, updated_at, total, succeeded, dead, cancelled from punctual_workflows where id < ?1
order by id desc limit ?2

-- name: count_ends
-- Changes the counts of a workflow's ended jobs. In: id, now, changes of the three counts. Index: primary key.
update punctual_workflows set updated_at = ?2, succeeded = succeeded + ?3, dead = dead + ?4, cancelled = cancelled + ?5 where id = ?1

-- name: prune_workflows
-- Deletes workflows that have no jobs left and were not updated after a cutoff.
-- In: the cutoff, the limit, the greatest id of the cutoff. Index: a range of the primary key.
delete from punctual_workflows where id in (
    select w.id from punctual_workflows w
    where w.id <= ?3 and w.updated_at <= ?1 and not exists (select 1 from punctual_nodes n where n.workflow = w.id) limit ?2)

-- name: node
-- The job of a workflow node. In: workflow, node. Out: its id and status. Index: primary key, rowid.
select j.id, j.status from punctual_nodes n join punctual_jobs j on j.seq = n.job where n.workflow = ?1 and n.node = ?2

-- name: nodes
-- The jobs of a workflow, by node name. In: workflow. Index: primary keys, rowid.
select n.node, j.id, j.name, case when r.job is null then j.status else 'processing' end, j.seq
from punctual_nodes n join punctual_jobs j on j.seq = n.job left join punctual_running r on r.job_id = j.id
where n.workflow = ?1 order by n.node

-- name: insert_node
-- Assigns a job to a workflow node. In: workflow, node, job.
insert into punctual_nodes (workflow, node, job) values (?1, ?2, ?3) on conflict (workflow, node) do update set job = excluded.job

-- name: delete_node
-- Removes a job from its workflow. In: job. Index: punctual_nodes_job.
delete from punctual_nodes where job = ?1
