-- name: lock
-- Takes a lock that is free, expired or the owner's own. In: name, owner, the time (or null), the lease. Out: its token and end, or no row.
insert into punctual_locks as l (name, owner, token, expires_at)
values ($1::text, $2::text, 1, coalesce($3::timestamptz, now()) + $4::int8 * interval '1 microsecond')
on conflict (name) do update set owner = excluded.owner, token = l.token + 1, expires_at = excluded.expires_at
where l.owner is null or l.owner = excluded.owner or l.expires_at <= coalesce($3::timestamptz, now())
returning token, expires_at

-- name: extend_lock
-- Extends a lock. In: name, owner, the time (or null), the lease. Rows changed: 1 if it was held.
update punctual_locks set expires_at = coalesce($3::timestamptz, now()) + $4::int8 * interval '1 microsecond'
where name = $1::text and owner = $2::text and expires_at > coalesce($3::timestamptz, now())

-- name: unlock
-- Releases a lock. In: name, owner, the time (or null). Rows changed: 1 if it was held.
update punctual_locks set owner = null, expires_at = '1970-01-01Z'
where name = $1::text and owner = $2::text and expires_at > coalesce($3::timestamptz, now())

-- name: locks
-- All held locks. In: the time (or null).
select name, owner, token, expires_at from punctual_locks
where owner is not null and expires_at > coalesce($1::timestamptz, now()) order by name
