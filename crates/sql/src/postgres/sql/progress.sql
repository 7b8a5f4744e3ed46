-- How far held jobs have come. In: ids, when each is scheduled for, runs, workers, documents. Index: primary keys.
update punctual_jobs j set progress = u.progress
from unnest($1::uuid[], $2::timestamptz[], $3::int4[], $4::uuid[], $5::text[]) u (id, scheduled_at, run, worker_id, progress)
where j.scheduled_at = u.scheduled_at and j.id = u.id and exists (
    select from punctual_running r where r.id = u.id and r.run = u.run and r.worker_id = u.worker_id)
