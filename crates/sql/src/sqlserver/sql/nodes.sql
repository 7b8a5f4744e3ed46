-- The jobs of a workflow, by the names they have there. In: workflow. Index: primary keys, primary key.
select n.node, j.id, j.name, case when r.job is null then j.status else 'processing' end, j.seq
from punctual_nodes n join punctual_jobs j on j.seq = n.job left join punctual_running r on r.job_id = j.id
where n.workflow = @P1 order by n.node
