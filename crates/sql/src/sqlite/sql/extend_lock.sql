-- Keeps a lock. In: name, owner, now, until. Rows changed: 1 if it was held.
update punctual_locks set expires_at = ?4 where name = ?1 and owner = ?2 and expires_at > ?3
