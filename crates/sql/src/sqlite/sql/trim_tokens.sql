-- Removes tokens that are good no longer. In: now. There are few.
delete from punctual_tokens where expires_at <= ?1
