-- The unique keys of jobs. In: ids, when each is scheduled for. Out: scope, key. Index: the whole primary key.
select j.name, j.unique_key from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
cross join lateral (
    select name, unique_key from punctual_jobs j where j.scheduled_at = u.scheduled_at and j.id = u.id limit 1) j
where j.unique_key is not null
