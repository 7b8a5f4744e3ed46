-- An ephemeral job is gone. Index: primary key.
delete t from punctual_ephemeral t with (forceseek, rowlock) join openjson(@P1) with (job bigint '$[0]') i
on t.job = i.job
