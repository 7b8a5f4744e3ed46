-- Takes unique keys for jobs, in the order given, which is the same everywhere, so that two of these never wait for each other.
-- In: scopes, keys, jobs. Out: scope, key, and the job that has it now. Index: primary key.
insert into punctual_keys as k (scope, key, job_id)
select scope, key, job_id from unnest($1::text[], $2::text[], $3::uuid[]) as u (scope, key, job_id)
on conflict (scope, key) do update set job_id = k.job_id
returning k.scope, k.key, k.job_id
