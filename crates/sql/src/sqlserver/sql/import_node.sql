-- The name of a job in its workflow. In: workflow, name, id of the job. Index: the unique one on id.
insert into punctual_nodes (workflow, node, job) select @P1, @P2, seq from punctual_jobs where id = @P3
    and not exists (select 1 from punctual_nodes n where n.workflow = @P1 and n.node = @P2)
