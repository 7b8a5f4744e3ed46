-- A job need not wait for a parent any more. In: parent, child, whether it succeeded. Index: primary key.
update d set succeeded = i.succeeded from punctual_dependencies d with (forceseek, rowlock)
join openjson(@P1) with (parent bigint '$[0]', child bigint '$[1]', succeeded bit '$[2]') i on d.parent = i.parent and d.child = i.child
