-- How many jobs of a key are held. In: queue, key. Index: punctual_running_gate.
select (select count(*) from punctual_running r where r.queue = i.queue collate Latin1_General_BIN2 and r.gate is not null and r.gate_hash = cast(hashbytes('sha2_256', i.[key]) as binary(32))), i.place
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', place int '$[2]') i
