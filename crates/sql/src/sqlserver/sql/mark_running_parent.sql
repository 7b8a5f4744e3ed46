-- The same for the execution under way, if there is one. In: id. Index: primary key.
update r set flow = 1 from punctual_running r with (forceseek, rowlock) join openjson(@P1) with (id char(36) '$[0]') i
on r.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) where r.flow = 0
