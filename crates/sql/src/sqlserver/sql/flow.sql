-- name: insert_waiting
-- Adds a job that waits for other jobs. In: run_at, job, whether a parent has failed already.
insert into punctual_waiting (run_at, job, any_failed)
select i.run_at, i.job, i.any_failed
from openjson(@P1) with (run_at bigint '$[0]', job bigint '$[1]', any_failed bit '$[2]') i

-- name: delete_waiting
-- Removes a job from the waiting jobs. In: run_at, job. Index: primary key.
delete t from punctual_waiting t with (forceseek, rowlock) join openjson(@P1) with (run_at bigint '$[0]', job bigint '$[1]') i
on t.run_at = i.run_at and t.job = i.job

-- name: wait_on
-- Updates how many parents a job waits for. In: job, the number of parents. Index: primary key.
update j set waiting_on = i.waiting_on from punctual_jobs j with (forceseek, rowlock)
join openjson(@P1) with (seq bigint '$[0]', waiting_on int '$[1]') i on j.seq = i.seq

-- name: record_parent_failure
-- Records that a parent of a waiting job has failed. In: job. Index: primary keys.
update w set any_failed = 1 from openjson(@P1) with (job bigint '$[0]') i
join punctual_jobs j with (forceseek) on j.seq = i.job join punctual_waiting w with (forceseek, rowlock) on w.run_at = j.run_at and w.job = j.seq

-- name: start_job
-- Starts a job whose parents have ended. In: job, its status, its run_at, now, its event. Index: primary key.
update j set status = i.status, run_at = i.run_at, updated_at = i.now, last_event = i.event, waiting_on = 0
from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (
    seq bigint '$[0]', status varchar(16) '$[1]', run_at bigint '$[2]', now bigint '$[3]', event bigint '$[4]') i
on j.seq = i.seq

-- name: parent
-- The state of a parent. In: id. Out: seq, status. Index: the unique one on id, then the primary key of punctual_running.
select j.seq, case when r.job is null then j.status else 'processing' end, i.place
from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16)) left join punctual_running r with (forceseek) on r.job_id = j.id

-- name: insert_dependency
-- Stores a dependency, pending or met. In: parent, child, what the child does if the parent fails, whether the parent succeeded (or null).
insert into punctual_dependencies (parent, child, policy, succeeded)
select i.parent, i.child, i.policy, i.succeeded
from openjson(@P1) with (parent bigint '$[0]', child bigint '$[1]', policy varchar(16) '$[2]', succeeded bit '$[3]') i

-- name: meet_dependency
-- Records that a parent has ended. In: parent, child, whether the parent succeeded. Index: primary key.
update d set succeeded = i.succeeded from punctual_dependencies d with (forceseek, rowlock)
join openjson(@P1) with (parent bigint '$[0]', child bigint '$[1]', succeeded bit '$[2]') i on d.parent = i.parent and d.child = i.child

-- name: mark_parent
-- Marks a job that another job or a workflow depends on. In: job. Index: primary key.
update j set flow = 1 from punctual_jobs j with (forceseek, rowlock) join openjson(@P1) with (seq bigint '$[0]') i on j.seq = i.seq where j.flow = 0

-- name: mark_running_parent
-- Marks its current execution, if there is one. In: id. Index: primary key.
update r set flow = 1 from punctual_running r with (forceseek, rowlock) join openjson(@P1) with (id char(36) '$[0]') i
on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) where r.flow = 0

-- name: pending_children
-- The jobs that wait for a job. In: job. Out: seq, id, what the child does if the job fails, the number of parents that it waits for, and
-- whether another parent has failed. Index: primary keys.
select c.seq, c.id, d.policy, c.waiting_on, w.any_failed, i.place
from openjson(@P1) with (job bigint '$[0]', place int '$[1]') i join punctual_dependencies d with (forceseek) on d.parent = i.job
join punctual_jobs c with (forceseek) on c.seq = d.child join punctual_waiting w with (forceseek) on w.run_at = c.run_at and w.job = c.seq
where d.succeeded is null

-- name: parents_of
-- The ids of a job's parents, pending or ended. In: job. Index: punctual_dependencies_child, primary key.
select p.id, i.place from openjson(@P1) with (job bigint '$[0]', place int '$[1]') i
join punctual_dependencies d with (forceseek) on d.child = i.job join punctual_jobs p with (forceseek) on p.seq = d.parent

-- name: parents
-- The parents of a job. In: job. Out: id, node, status. Index: punctual_dependencies_child, primary key, the primary key of
-- punctual_running.
select p.id, json_value(p.options, '$.node'), case when r.job is null then p.status else 'processing' end
from punctual_dependencies d join punctual_jobs p on p.seq = d.parent left join punctual_running r on r.job_id = p.id
where d.child = @P1

-- name: children
-- The children of a job, oldest first. In: job, the limit. Out: id, node, status. Index: primary keys.
select top (@P2) c.id, json_value(c.options, '$.node'), case when r.job is null then c.status else 'processing' end
from punctual_dependencies d join punctual_jobs c on c.seq = d.child left join punctual_running r on r.job_id = c.id
where d.parent = @P1 order by d.child

-- name: delete_dependencies
-- Deletes the dependencies of a job on its parents. In: job. Index: punctual_dependencies_child.
delete t from punctual_dependencies t with (forceseek, rowlock) join openjson(@P1) with (child bigint '$[0]') i
on t.child = i.child

-- name: delete_dependents
-- Deletes the dependencies of a job's children on it. In: job. Index: primary key.
delete t from punctual_dependencies t with (forceseek, rowlock) join openjson(@P1) with (parent bigint '$[0]') i
on t.parent = i.parent

-- name: insert_workflow
-- Stores a workflow. In: id, name, the submitter, now, the number of jobs.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total) values (@P1, @P2, @P3, @P4, @P4, @P5)

-- name: workflow_of
-- The workflow of a job, unless another job has taken its node. In: job. Index: primary key, punctual_nodes_job.
select j.workflow_id, i.place from openjson(@P1) with (job bigint '$[0]', place int '$[1]') i
join punctual_jobs j with (forceseek) on j.seq = i.job join punctual_nodes n with (forceseek) on n.job = j.seq

-- name: workflow
-- A workflow. In: id. Index: primary key.
select id, name, created_by, created_at, updated_at, total, succeeded, dead, cancelled from punctual_workflows where id = @P1

-- name: workflows
-- Workflows, latest first. In: the id to start before, the limit. Index: the primary key, backwards.
select top (@P2) id, name, created_by, created_at, updated_at, total, succeeded, dead, cancelled from punctual_workflows where id < @P1
order by id desc

-- name: count_ends
-- Changes the counts of a workflow's ended jobs. In: id, now, changes of the three counts. Index: primary key.
update w set updated_at = i.now, succeeded = w.succeeded + i.succeeded, dead = w.dead + i.dead, cancelled = w.cancelled + i.cancelled
from punctual_workflows w with (forceseek, rowlock) join openjson(@P1) with (
    id char(36) '$[0]', now bigint '$[1]', succeeded int '$[2]', dead int '$[3]', cancelled int '$[4]') i
on w.id = cast(cast(i.id as uniqueidentifier) as binary(16))

-- name: prune_workflows
-- Deletes workflows that have no jobs left and were not updated after a cutoff.
-- In: the cutoff, the limit, the greatest id of the cutoff. Index: a range of the primary key.
delete from punctual_workflows where id in (
    select top (@P2) w.id from punctual_workflows w
    where w.id <= @P3 and w.updated_at <= @P1 and not exists (select 1 from punctual_nodes n where n.workflow = w.id))

-- name: node
-- The job of a workflow node. In: workflow, node. Out: its id and status. Index: primary keys.
select j.id, j.status, i.place from openjson(@P1) with (workflow char(36) '$[0]', node nvarchar(256) '$[1]', place int '$[2]') i
join punctual_nodes n with (forceseek) on n.workflow = cast(cast(i.workflow as uniqueidentifier) as binary(16)) and n.node = i.node collate Latin1_General_BIN2
join punctual_jobs j with (forceseek) on j.seq = n.job

-- name: nodes
-- The jobs of a workflow, by node name. In: workflow. Index: primary keys.
select n.node, j.id, j.name, case when r.job is null then j.status else 'processing' end, j.seq
from punctual_nodes n join punctual_jobs j on j.seq = n.job left join punctual_running r on r.job_id = j.id
where n.workflow = @P1 order by n.node

-- name: insert_node
-- Assigns a job to a workflow node. In: workflow, node, job. Index: primary key.
update n set job = i.job
from openjson(@P1) with (workflow char(36) '$[0]', node nvarchar(256) '$[1]', job bigint '$[2]') i
join punctual_nodes n with (forceseek, rowlock) on n.workflow = cast(cast(i.workflow as uniqueidentifier) as binary(16)) and n.node = i.node collate Latin1_General_BIN2;
insert into punctual_nodes (workflow, node, job)
select cast(cast(i.workflow as uniqueidentifier) as binary(16)), i.node, i.job
from openjson(@P1) with (workflow char(36) '$[0]', node nvarchar(256) '$[1]', job bigint '$[2]') i
where not exists (select 1 from punctual_nodes n with (forceseek) where n.workflow = cast(cast(i.workflow as uniqueidentifier) as binary(16)) and n.node = i.node collate Latin1_General_BIN2)

-- name: delete_node
-- Removes a job from its workflow. In: job. Index: punctual_nodes_job.
delete t from punctual_nodes t with (forceseek, rowlock) join openjson(@P1) with (job bigint '$[0]') i
on t.job = i.job
