-- The jobs that others wait for, or waited for. In: the others. Out: parent, child, what it does if that fails, how it ended.
-- Index: a range of punctual_dependencies_child for each.
select d.parent, d.child, d.policy, d.succeeded from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_dependencies d where d.child = u.id order by d.parent) d
