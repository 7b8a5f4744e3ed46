-- Starts that no rate counts any more. In: queue, key, up to when. Index: a range of the primary key.
delete t from punctual_limit_starts t with (forceseek, rowlock) join openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', until bigint '$[2]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.at <= i.until
