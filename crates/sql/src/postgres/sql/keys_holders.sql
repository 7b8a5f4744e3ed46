-- The jobs that hold unique keys. In: scopes, keys. Index: primary key.
select k.job_id from unnest($1::text[], $2::text[]) u (scope, key)
cross join lateral (select job_id from punctual_keys k where k.scope = u.scope and k.key = u.key limit 1) k
