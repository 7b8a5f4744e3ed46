-- The job that holds a unique key. In: scope, key. Out: its place, its id, until when the key is in force, its status.
-- Index: primary keys, primary key.
select j.seq, j.id, k.expires_at, case when r.job is null then j.status else 'processing' end, i.place
from openjson(@P1) with (scope nvarchar(512) '$[0]', [key] nvarchar(1024) '$[1]', place int '$[2]') i
join punctual_keys k with (forceseek) on k.scope = i.scope collate Latin1_General_BIN2 and k.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32))
join punctual_jobs j with (forceseek) on j.seq = k.job left join punctual_running r with (forceseek) on r.job_id = j.id
