-- The job that has a place in a workflow. In: workflow, node. Out: its id and status. Index: primary key, primary key.
select j.id, j.status, i.place from openjson(@P1) with (workflow char(36) '$[0]', node nvarchar(256) '$[1]', place int '$[2]') i
join punctual_nodes n with (forceseek) on n.workflow = cast(cast(i.workflow as uniqueidentifier) as binary(16)) and n.node = i.node collate Latin1_General_BIN2
join punctual_jobs j with (forceseek) on j.seq = n.job
