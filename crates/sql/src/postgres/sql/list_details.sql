-- What lists select jobs by. In: ids, when each is scheduled for. Index: the whole primary key, then that of what is running.
select j.id, case when r.id is null then j.status else 'processing' end, j.queue, j.name, j.user_id, j.correlation_id, j.options
from unnest({ids}::uuid[], {times}::timestamptz[]) u (id, scheduled_at)
cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
left join punctual_running r on r.id = j.id
