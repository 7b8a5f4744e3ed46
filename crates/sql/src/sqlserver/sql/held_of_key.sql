-- How many jobs of a key are held, and how many of its slots cancelled ones occupy. In: queue, key, now.
-- Index: punctual_running_limit_key, punctual_occupied_slots_limit_key.
select (select count(*) from punctual_running r where r.queue = i.queue collate Latin1_General_BIN2 and r.limit_key is not null and r.limit_key_hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)))
    + (select count(*) from punctual_occupied_slots s where s.queue = i.queue collate Latin1_General_BIN2 and s.limit_key_hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and s.lease_until > i.now), i.place
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', now bigint '$[2]', place int '$[3]') i
