-- Jobs whose places in workflows are taken by others, with their statuses; the places are held, in the order given, which is the same everywhere.
-- In: workflows, nodes. Index: primary keys.
select n.workflow, n.node, n.job_id, j.workflow_id is not null, j.status from unnest($1::uuid[], $2::text[]) u (workflow, node)
cross join lateral (select * from punctual_nodes n where n.workflow = u.workflow and n.node = u.node for update) n
left join lateral (
    select * from punctual_jobs j where j.scheduled_at = punctual_scheduled_at(n.job_id) and j.id = n.job_id limit 1) j on true
