-- Takes unique keys for jobs, in the order given, which is the same everywhere, so that two of these never wait for each other.
-- In: the time (or null), scopes, keys, jobs, for how long each is in force. Out: scope, key, the job that has it now, whether it is still in
-- force, and the time. Index: primary key.
insert into punctual_keys as k (scope, key, job_id, expires_at)
select scope, key, job_id, {now} + period_us * interval '1 microsecond'
from unnest($2::text[], $3::text[], $4::uuid[], $5::int8[]) as u (scope, key, job_id, period_us)
on conflict (scope, key) do update set job_id = k.job_id
returning k.scope, k.key, k.job_id, k.expires_at, {now}
