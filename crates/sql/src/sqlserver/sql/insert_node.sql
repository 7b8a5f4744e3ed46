-- A job takes a place in a workflow. In: workflow, node, job.
update punctual_nodes set job = @P3 where workflow = @P1 and node = @P2;
if @@rowcount = 0 insert into punctual_nodes (workflow, node, job) values (@P1, @P2, @P3)
