-- A key has nothing to start, as far as known. In: queue, key. Index: punctual_limit_heads_key.
delete t from punctual_limit_heads t with (forceseek, rowlock) join openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32))
