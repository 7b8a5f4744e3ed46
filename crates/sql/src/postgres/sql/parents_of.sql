-- Whom jobs wait for, or waited for. In: ids. Out: child, parent. Index: punctual_dependencies_child.
select d.child, d.parent from unnest($1::uuid[]) u (id)
cross join lateral (select child, parent from punctual_dependencies d where d.child = u.id) d
