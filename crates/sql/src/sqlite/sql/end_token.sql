-- Ends a token or session that is valid. In: its id, now.
update punctual_tokens set expires_at = ?2 where id = ?1 and (expires_at is null or expires_at > ?2)
