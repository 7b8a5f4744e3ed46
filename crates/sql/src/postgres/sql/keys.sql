-- name: keys_take
-- Takes unique keys for jobs, in the order given, which is the same in all transactions (lock order).
-- In: the time (or null), scopes, keys, jobs, for how many microseconds each key is in force. Out: scope, key, the job that holds it now,
-- until when it is in force, and the time. Index: primary key.
insert into punctual_keys as k (scope, key, job_id, expires_at)
select scope, key, job_id, {now} + period_us * interval '1 microsecond'
from unnest($2::text[], $3::text[], $4::uuid[], $5::int8[]) as u (scope, key, job_id, period_us)
on conflict (scope, key) do update set job_id = k.job_id
returning k.scope, k.key, k.job_id, k.expires_at, {now}

-- name: keys_pass_on
-- Transfers unique keys, which are locked, from jobs that no longer block them to other jobs. In: as keys_take. Index: primary key.
update punctual_keys k set job_id = u.job_id, expires_at = {now} + u.period_us * interval '1 microsecond'
from unnest($2::text[], $3::text[], $4::uuid[], $5::int8[]) as u (scope, key, job_id, period_us)
where k.scope = u.scope and k.key = u.key

-- name: keys_holders
-- The jobs that hold unique keys. In: scopes, keys. Index: primary key.
select k.job_id from unnest($1::text[], $2::text[]) u (scope, key)
cross join lateral (select job_id from punctual_keys k where k.scope = u.scope and k.key = u.key limit 1) k

-- name: keys_alone
-- Serializes transactions that may change the job that holds a unique key: each change moves its row, and a concurrent transaction would
-- not find it. In: scopes, keys. Locks in the order of the locks' numbers (lock order).
select pg_advisory_xact_lock(hashtext('punctual keys'), k.n) from (
    select distinct hashtext(concat_ws(chr(31), current_schema(), u.scope, u.key)) as n
    from unnest($1::text[], $2::text[]) u (scope, key) order by n) k

-- name: keys_hold
-- Locks unique keys that jobs may release, in the order given, which is the same in all transactions. In: scopes, keys.
-- Index: primary key.
select k.key from unnest($1::text[], $2::text[]) u (scope, key)
cross join lateral (select key from punctual_keys k where k.scope = u.scope and k.key = u.key for update) k

-- name: keys_of
-- The unique keys of jobs. In: ids. Out: scope, key. Index: punctual_keys_job.
select k.scope, k.key from unnest($1::uuid[]) u (id)
cross join lateral (select scope, key from punctual_keys k where k.job_id = u.id) k

-- name: keys_holder
-- Locks a unique key. In: scope, key. Out: the job that holds it, until when it is in force. Index: primary key.
select job_id, expires_at from punctual_keys where scope = $1::text and key = $2::text for update

-- name: keys_retake
-- Takes a unique key for a job that is to run again: a key that is free, or a locked one that another job passes on. In: scope, key, job,
-- expires_at, the other job. Rows changed: 1, or 0 if the key was free and has been taken meanwhile. Index: primary key.
insert into punctual_keys as k (scope, key, job_id, expires_at) values ($1::text, $2::text, $3::uuid, $4::timestamptz)
on conflict (scope, key) do update set job_id = excluded.job_id, expires_at = excluded.expires_at where k.job_id = $5::uuid
