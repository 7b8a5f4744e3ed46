-- How far a key has come, or with an empty key, how far its queue has. In: queue, key. Index: primary key.
select t.turn, i.place from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', place int '$[2]') i join punctual_limit_fairness t with (forceseek) on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32))
