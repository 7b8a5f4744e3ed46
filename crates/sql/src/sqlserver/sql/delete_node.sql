-- A job leaves its workflow. In: job. Index: punctual_nodes_job.
delete from punctual_nodes where job = @P1
