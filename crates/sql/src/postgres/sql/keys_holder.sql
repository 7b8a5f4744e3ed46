-- Holds a unique key. In: scope, key. Out: the job that has it, until when it is in force. Index: primary key.
select job_id, expires_at from punctual_keys where scope = $1::text and key = $2::text for update
