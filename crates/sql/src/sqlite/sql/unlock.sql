-- Frees a lock. In: name, owner, now. Rows changed: 1 if it was held.
update punctual_locks set owner = null, expires_at = 0 where name = ?1 and owner = ?2 and expires_at > ?3
