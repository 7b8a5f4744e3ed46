-- A job leaves its workflow. In: job. Index: punctual_nodes_job.
delete t from punctual_nodes t with (forceseek, rowlock) join openjson(@P1) with (job bigint '$[0]') i
on t.job = i.job
