-- The jobs that a job waits for, or waited for. In: id. Out: parent, what it does if that fails, how it ended.
-- Index: the unique one on id, then punctual_dependencies_child.
select p.id, d.policy, d.succeeded, i.place from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i
join punctual_jobs c with (forceseek) on c.id = cast(cast(i.id as uniqueidentifier) as binary(16)) join punctual_dependencies d with (forceseek) on d.child = c.seq
join punctual_jobs p with (forceseek) on p.seq = d.parent
