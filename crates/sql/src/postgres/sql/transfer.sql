-- name: dependencies_of
-- The parents of jobs, pending or ended. In: the children. Out: parent, child, what the child does if the parent fails, whether the parent
-- succeeded (or null). Index: a range of punctual_dependencies_child for each.
select d.parent, d.child, d.policy, d.succeeded from unnest($1::uuid[]) u (id)
cross join lateral (select * from punctual_dependencies d where d.child = u.id order by d.parent) d

-- name: import_parents
-- Marks imported jobs that other jobs or a workflow depend on. In: ids, scheduled_ats. Index: primary keys.
with given as materialized (select * from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)),
updated_jobs as (
    update punctual_jobs j set flow = true from given where j.scheduled_at = given.scheduled_at and j.id = given.id
    returning j.id, j.lane, j.run_at),
updated_ready as (update punctual_ready r set flow = true from updated_jobs where r.lane = updated_jobs.lane and r.run_at = updated_jobs.run_at and r.id = updated_jobs.id)
update punctual_running r set flow = true from updated_jobs where r.id = updated_jobs.id
