-- The locks that are held. In: the time (or null).
select name, owner, token, expires_at from punctual_locks
where owner is not null and expires_at > coalesce($1::timestamptz, now()) order by name
