-- Takes a job from its place among the queued ones of its key. Index: the whole primary key.
delete t from punctual_keyed t with (forceseek, rowlock) join openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', name nvarchar(256) '$[2]', priority tinyint '$[3]', run_at bigint '$[4]', job bigint '$[5]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.name = i.name collate Latin1_General_BIN2 and t.priority = i.priority and t.run_at = i.run_at and t.job = i.job
