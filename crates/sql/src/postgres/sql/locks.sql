-- name: lock
-- Takes a lock that is free, expired or the owner's own. In: name, owner, now, until. Out: its token, or no row.
insert into punctual_locks as l (name, owner, token, expires_at) values ($1::text, $2::text, 1, $4::timestamptz)
on conflict (name) do update set owner = excluded.owner, token = l.token + 1, expires_at = excluded.expires_at
where l.owner is null or l.owner = excluded.owner or l.expires_at <= $3::timestamptz
returning token

-- name: extend_lock
-- Extends a lock. In: name, owner, now, until. Rows changed: 1 if it was held.
update punctual_locks set expires_at = $4::timestamptz where name = $1::text and owner = $2::text and expires_at > $3::timestamptz

-- name: unlock
-- Releases a lock. In: name, owner, now. Rows changed: 1 if it was held.
update punctual_locks set owner = null, expires_at = '1970-01-01Z'
where name = $1::text and owner = $2::text and expires_at > $3::timestamptz

-- name: locks
-- All held locks. In: now.
select name, owner, token, expires_at from punctual_locks where owner is not null and expires_at > $1::timestamptz order by name
