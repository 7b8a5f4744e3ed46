-- How jobs stand. In: ids, when each is scheduled for. Index: the whole primary key, then that of what is running.
select j.id, case when r.id is null then j.status else 'processing' end, coalesce(r.run, j.run), j.run_at, j.lane, j.finished_at
from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id
