-- The places of a workflow. In: id. Out: node, job. Index: primary key.
select node, job_id from punctual_nodes where workflow = $1::uuid order by node
