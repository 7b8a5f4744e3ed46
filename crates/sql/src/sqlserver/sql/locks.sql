-- name: lock
-- Takes a lock that is free, expired or the owner's own. In: name, owner, now, the lease. Out: its token and end, or no row.
update punctual_locks set owner = @P2, token = token + 1, expires_at = @P3 + @P4 output inserted.token, inserted.expires_at
where name = @P1 and (owner is null or owner = @P2 or expires_at <= @P3);
if @@rowcount = 0 insert into punctual_locks (name, owner, token, expires_at) output inserted.token, inserted.expires_at
select @P1, @P2, 1, @P3 + @P4 where not exists (select 1 from punctual_locks where name = @P1)

-- name: extend_lock
-- Extends a lock. In: name, owner, now, the lease. Rows changed: 1 if it was held.
update punctual_locks set expires_at = @P3 + @P4 where name = @P1 and owner = @P2 and expires_at > @P3

-- name: unlock
-- Releases a lock. In: name, owner, now. Rows changed: 1 if it was held.
update punctual_locks set owner = null, expires_at = 0 where name = @P1 and owner = @P2 and expires_at > @P3

-- name: locks
-- All held locks. In: now.
select name, owner, token, expires_at from punctual_locks where owner is not null and expires_at > @P1 order by name
