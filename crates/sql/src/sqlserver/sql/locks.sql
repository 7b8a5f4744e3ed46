-- The locks that are held. In: now.
select name, owner, token, expires_at from punctual_locks where owner is not null and expires_at > @P1 order by name
