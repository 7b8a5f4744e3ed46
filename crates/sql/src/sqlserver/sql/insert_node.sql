-- A job takes a place in a workflow. In: workflow, node, job. Index: primary key.
update n set job = i.job
from openjson(@P1) with (workflow char(36) '$[0]', node nvarchar(256) '$[1]', job bigint '$[2]') i
join punctual_nodes n with (forceseek, rowlock) on n.workflow = cast(cast(i.workflow as uniqueidentifier) as binary(16)) and n.node = i.node collate Latin1_General_BIN2;
insert into punctual_nodes (workflow, node, job)
select cast(cast(i.workflow as uniqueidentifier) as binary(16)), i.node, i.job
from openjson(@P1) with (workflow char(36) '$[0]', node nvarchar(256) '$[1]', job bigint '$[2]') i
where not exists (select 1 from punctual_nodes n with (forceseek) where n.workflow = cast(cast(i.workflow as uniqueidentifier) as binary(16)) and n.node = i.node collate Latin1_General_BIN2)
