-- A job gives its unique key back. Index: primary key.
delete t from punctual_keys t with (forceseek, rowlock) join openjson(@P1) with (scope nvarchar(512) '$[0]', [key] nvarchar(1024) '$[1]', job bigint '$[2]') i
on t.scope = i.scope collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.job = i.job
