-- Ends a token or session that is valid. In: its id, now.
update punctual_tokens set expires_at = @P2 where id = @P1 and (expires_at is null or expires_at > @P2)
