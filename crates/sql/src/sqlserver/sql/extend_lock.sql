-- Keeps a lock. In: name, owner, now, until. Rows changed: 1 if it was held.
update punctual_locks set expires_at = @P4 where name = @P1 and owner = @P2 and expires_at > @P3
