-- The jobs that a job waits for, or waited for. In: id. Out: parent, what it does if that fails, how it ended.
-- Index: the unique one on id, then punctual_dependencies_child.
select p.id, d.policy, d.succeeded from punctual_jobs c join punctual_dependencies d on d.child = c.seq
join punctual_jobs p on p.seq = d.parent where c.id = @P1
