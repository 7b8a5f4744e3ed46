-- Forgets who waited for a job. In: job. Index: primary key.
delete t from punctual_dependencies t with (forceseek, rowlock) join openjson(@P1) with (parent bigint '$[0]') i
on t.parent = i.parent
