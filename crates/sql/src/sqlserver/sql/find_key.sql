-- The job that holds a unique key. In: scope, key. Out: its place, its id, until when the key is in force, its status.
-- Index: primary keys, primary key.
select j.seq, j.id, k.expires_at, case when r.job is null then j.status else 'processing' end
from punctual_keys k join punctual_jobs j on j.seq = k.job left join punctual_running r on r.job_id = j.id
where k.scope = @P1 and k.hash = hashbytes('sha2_256', @P2)
