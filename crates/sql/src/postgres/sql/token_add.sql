-- Stores a token. In: its columns.
insert into punctual_tokens (id, name, roles, hash, session_of, created_by, created_at, expires_at)
values ($1::uuid, $2::text, $3::text[], $4::bytea, $5::uuid, $6::text, $7::timestamptz, $8::timestamptz)
