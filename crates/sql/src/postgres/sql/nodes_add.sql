-- Jobs take places in workflows. In: workflows, nodes, jobs.
insert into punctual_nodes (workflow, node, job_id) select * from unnest($1::uuid[], $2::text[], $3::uuid[])
on conflict (workflow, node) do update set job_id = excluded.job_id
