-- The children of a job, first come first. In: job, how many. Out: id, node, status. Index: primary keys, rowid.
select c.id, c.options ->> 'node', case when r.job is null then c.status else 'processing' end
from punctual_dependencies d join punctual_jobs c on c.seq = d.child left join punctual_running r on r.job_id = c.id
where d.parent = ?1 order by d.child limit ?2
