-- A key need not be looked at when a lease ends, unless another one ends then. In: queue, time, key.
-- Index: the whole primary key of marks, punctual_occupied_slots_limit_key.
delete t from punctual_limit_wakeups t with (forceseek, rowlock) join openjson(@P1) with (queue nvarchar(256) '$[0]', at bigint '$[1]', [key] nvarchar(1024) '$[2]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and t.at = i.at
where not exists (select 1 from punctual_occupied_slots s where s.queue = t.queue and s.limit_key_hash = t.hash and s.lease_until = t.at)
