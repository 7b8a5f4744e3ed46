-- A user, correlation id or tag of a job that goes. Index: the whole primary key.
delete t from punctual_labels t with (forceseek, rowlock) join openjson(@P1) with (kind varchar(16) '$[0]', value nvarchar(512) '$[1]', id char(36) '$[2]') i
on t.kind = i.kind collate Latin1_General_BIN2 and t.value = i.value collate Latin1_General_BIN2 and t.id = cast(cast(i.id as uniqueidentifier) as binary(16))
