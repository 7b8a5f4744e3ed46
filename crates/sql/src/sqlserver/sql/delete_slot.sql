-- An execution occupies no slot any more. In: id, run. Index: primary key.
delete t from punctual_occupied_slots t with (forceseek, rowlock) join openjson(@P1) with (id char(36) '$[0]', run int '$[1]') i
on t.job_id = cast(cast(i.id as uniqueidentifier) as binary(16)) and t.run = i.run
