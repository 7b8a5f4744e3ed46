-- A job waits no longer. In: run_at, job. Index: primary key.
delete t from punctual_waiting t with (forceseek, rowlock) join openjson(@P1) with (run_at bigint '$[0]', job bigint '$[1]') i
on t.run_at = i.run_at and t.job = i.job
