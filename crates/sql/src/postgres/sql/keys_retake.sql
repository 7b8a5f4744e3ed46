-- A job that is to run again takes a unique key that is free, or is held and passes from another job. In: scope, key, job, until when, the other
-- job. Rows changed: 1, or 0 if the key was free and is not any more. Index: primary key.
insert into punctual_keys as k (scope, key, job_id, expires_at) values ($1::text, $2::text, $3::uuid, $4::timestamptz)
on conflict (scope, key) do update set job_id = excluded.job_id, expires_at = excluded.expires_at where k.job_id = $5::uuid
