-- The parents of a job. In: job. Out: id, node, status. Index: punctual_dependencies_child, rowid, the primary key of what is running.
select p.id, p.options ->> 'node', case when r.job is null then p.status else 'processing' end
from punctual_dependencies d join punctual_jobs p on p.seq = d.parent left join punctual_running r on r.job_id = p.id
where d.child = ?1
