-- The workflow of a job that has its place there, if no other has taken it. In: job. Index: primary key, punctual_nodes_job.
select j.workflow_id from punctual_jobs j join punctual_nodes n on n.job = j.seq where j.seq = @P1
