-- Recent starts under a limit. In: queue, key (empty for the queue's own), after when. Index: a range of the primary key.
select s.at, s.n, i.place from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', after bigint '$[2]', place int '$[3]') i
join punctual_limit_starts s with (forceseek) on s.queue = i.queue collate Latin1_General_BIN2 and s.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and s.at > i.after
