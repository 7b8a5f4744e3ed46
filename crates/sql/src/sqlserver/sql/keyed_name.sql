-- The next name of which a key has anything queued, after another. In: queue, key, name. Index: one step in the primary key.
select k.name, i.place from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', name nvarchar(256) '$[2]', place int '$[3]') i
cross apply (select top (1) name from punctual_keyed t with (forceseek) where t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.name > i.name collate Latin1_General_BIN2 order by t.name) k
