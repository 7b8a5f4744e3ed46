-- The jobs that wait for some jobs. In: ids. Out: parent, child, what the child does if the parent fails, for how many it waits, and
-- whether one of the others has failed. Index: primary keys.
select d.parent, d.child, d.policy, w.waiting_on, w.any_failed from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_dependencies d where d.parent = u.id and d.succeeded is null) d
cross join lateral (select * from punctual_waiting w where w.id = d.child limit 1) w
