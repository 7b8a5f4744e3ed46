-- The name of a job in its workflow. In: workflow, name, id of the job. Index: the unique one on id.
insert into punctual_nodes (workflow, node, job) select ?1, ?2, seq from punctual_jobs where id = ?3
on conflict (workflow, node) do nothing
