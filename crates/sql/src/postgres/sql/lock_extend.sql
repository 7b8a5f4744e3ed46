-- Keeps a lock. In: the time (or null), name, owner, how long. Rows changed: 1 if it was held.
update punctual_locks set expires_at = coalesce($1::timestamptz, now()) + $4::int8 * interval '1 microsecond'
where name = $2::text and owner = $3::text and expires_at > coalesce($1::timestamptz, now())
