-- name: lock
-- Takes a lock that is free, expired or the owner's own. In: name, owner, now, the lease. Out: its token and end, or no row.
insert into punctual_locks (name, owner, token, expires_at) values (?1, ?2, 1, ?3 + ?4)
on conflict (name) do update set owner = excluded.owner, token = token + 1, expires_at = excluded.expires_at
where punctual_locks.owner is null or punctual_locks.owner = excluded.owner or punctual_locks.expires_at <= ?3
returning token, expires_at

-- name: extend_lock
-- Extends a lock. In: name, owner, now, the lease. Rows changed: 1 if it was held.
update punctual_locks set expires_at = ?3 + ?4 where name = ?1 and owner = ?2 and expires_at > ?3

-- name: unlock
-- Releases a lock. In: name, owner, now. Rows changed: 1 if it was held.
update punctual_locks set owner = null, expires_at = 0 where name = ?1 and owner = ?2 and expires_at > ?3

-- name: locks
-- All held locks. In: now.
select name, owner, token, expires_at from punctual_locks where owner is not null and expires_at > ?1 order by name
