-- The children of a job, first come first. In: job, how many. Out: id, node, status. Index: primary keys, primary key.
select top (@P2) c.id, json_value(c.options, '$.node'), case when r.job is null then c.status else 'processing' end
from punctual_dependencies d join punctual_jobs c on c.seq = d.child left join punctual_running r on r.job_id = c.id
where d.parent = @P1 order by d.child
