-- Forgets whom a job waited for. In: job. Index: punctual_dependencies_child.
delete t from punctual_dependencies t with (forceseek, rowlock) join openjson(@P1) with (child bigint '$[0]') i
on t.child = i.child
