-- The unique keys of jobs. In: ids. Out: scope, key. Index: punctual_keys_job.
select k.scope, k.key from unnest($1::uuid[]) u (id)
cross join lateral (select scope, key from punctual_keys k where k.job_id = u.id) k
