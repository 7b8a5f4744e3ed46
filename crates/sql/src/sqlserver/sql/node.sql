-- The job that has a place in a workflow. In: workflow, node. Out: its id and status. Index: primary key, primary key.
select j.id, j.status from punctual_nodes n join punctual_jobs j on j.seq = n.job where n.workflow = @P1 and n.node = @P2
