-- The job that has a place in a workflow. In: workflow, node. Out: the job's status. Index: primary key, rowid.
select j.status from punctual_nodes n join punctual_jobs j on j.seq = n.job where n.workflow = ?1 and n.node = ?2
