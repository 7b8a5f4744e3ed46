-- A key is to be looked at, from a time on. In: queue, time, key.
insert into punctual_limit_wakeups (queue, at, [key], hash)
select distinct i.queue collate Latin1_General_BIN2, i.at, i.[key] collate Latin1_General_BIN2, cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (queue nvarchar(256) '$[0]', at bigint '$[1]', [key] nvarchar(1024) '$[2]') i
where not exists (select 1 from punctual_limit_wakeups m with (forceseek) where m.queue = i.queue collate Latin1_General_BIN2 and m.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and m.at = i.at)
