-- The name of a job in its workflow. In: workflow, name, id of the job. Index: the unique one on id.
insert into punctual_nodes (workflow, node, job)
select cast(cast(i.workflow as uniqueidentifier) as binary(16)), i.node, j.seq
from openjson(@P1) with (workflow char(36) '$[0]', node nvarchar(256) '$[1]', id char(36) '$[2]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16))
where not exists (select 1 from punctual_nodes n with (forceseek) where n.workflow = cast(cast(i.workflow as uniqueidentifier) as binary(16)) and n.node = i.node collate Latin1_General_BIN2)
