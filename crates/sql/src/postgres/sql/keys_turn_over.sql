-- Unique keys, which are held, pass from jobs that are no longer in the way to others. In: as keys_take.sql. Index: primary key.
update punctual_keys k set job_id = u.job_id, expires_at = {now} + u.period_us * interval '1 microsecond'
from unnest($2::text[], $3::text[], $4::uuid[], $5::int8[]) as u (scope, key, job_id, period_us)
where k.scope = u.scope and k.key = u.key
