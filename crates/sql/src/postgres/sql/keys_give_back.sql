-- Jobs that were known already give back the keys they have just taken. In: scopes, keys, jobs. Index: primary key.
delete from punctual_keys k using unnest($1::text[], $2::text[], $3::uuid[]) u (scope, key, job_id)
where k.scope = u.scope and k.key = u.key and k.job_id = u.job_id
