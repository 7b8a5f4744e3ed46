-- A key, or a queue, has come so far. In: queue, key, turn.
update t set turn = i.turn
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', turn bigint '$[2]') i
join punctual_limit_fairness t with (forceseek, rowlock) on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32));
insert into punctual_limit_fairness (queue, [key], turn, hash)
select i.queue, i.[key], i.turn, cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', turn bigint '$[2]') i
where not exists (select 1 from punctual_limit_fairness t with (forceseek) where t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)))
