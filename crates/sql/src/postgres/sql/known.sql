-- Which of some ids are known. In: ids, when each is scheduled for. Index: the whole primary key.
select j.id from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (select j.id from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
