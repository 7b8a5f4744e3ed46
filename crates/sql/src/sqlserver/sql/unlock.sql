-- Frees a lock. In: name, owner, now. Rows changed: 1 if it was held.
update punctual_locks set owner = null, expires_at = 0 where name = @P1 and owner = @P2 and expires_at > @P3
