-- name: insert_token
-- Stores a token. In: its columns.
insert into punctual_tokens (id, name, roles, hash, session_of, created_by, created_at, expires_at)
values ($1::uuid, $2::text, array(select json_array_elements_text($3::text::json)), $4::bytea, $5::uuid, $6::text, $7::timestamptz,
    $8::timestamptz)

-- name: tokens
-- All tokens, oldest first: their ids begin with their time. The table is small.
select id, name, to_json(roles)::text, hash, session_of, created_by, created_at, expires_at from punctual_tokens order by id

-- name: revoke_token
-- Ends a valid token or session. In: its id, now.
update punctual_tokens set expires_at = $2::timestamptz where id = $1::uuid and (expires_at is null or expires_at > $2::timestamptz)

-- name: remove_sessions
-- Deletes a session, or the sessions of a token. In: its id. The table is small.
delete from punctual_tokens where session_of = $1::uuid or id = $1::uuid and session_of is not null

-- name: clear_tokens
-- Deletes all tokens and sessions, unless a token is valid. In: the time (or null). The table is small.
delete from punctual_tokens where not exists (
    select from punctual_tokens valid
    where valid.session_of is null and (valid.expires_at is null or valid.expires_at > coalesce($1::timestamptz, now()))
)

-- name: prune_tokens
-- Deletes expired sessions and tokens, except the last token created: while one exists, tokens are required. In: now. The table is small.
delete from punctual_tokens where expires_at <= $1::timestamptz and (
    session_of is not null or id <> (select t.id from punctual_tokens t where t.session_of is null order by t.id desc limit 1)
)

-- name: idempotent_request
-- Stores a request, unless its key exists. In: key, fingerprint, the time (or null), seed. Out: the stored request of this key.
-- If another transaction has just stored the request, the update makes its row visible.
insert into punctual_idempotency as r (key, fingerprint, at, seed)
values ($1::text, $2::bytea, coalesce($3::timestamptz, now()), $4::int8)
on conflict (key) do update set key = r.key
returning fingerprint, at, seed

-- name: prune_idempotent_requests
-- Deletes old requests. In: the cutoff, the limit. Index: punctual_idempotency_at.
delete from punctual_idempotency where key in (select key from punctual_idempotency where at < $1::timestamptz order by at limit $2::int8)
