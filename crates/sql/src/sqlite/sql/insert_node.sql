-- A job takes a place in a workflow. In: workflow, node, job.
insert into punctual_nodes (workflow, node, job) values (?1, ?2, ?3) on conflict (workflow, node) do update set job = excluded.job
