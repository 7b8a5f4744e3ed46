-- Frees a lock. In: the time (or null), name, owner. Rows changed: 1 if it was held.
update punctual_locks set owner = null, expires_at = '1970-01-01Z'
where name = $2::text and owner = $3::text and expires_at > coalesce($1::timestamptz, now())
