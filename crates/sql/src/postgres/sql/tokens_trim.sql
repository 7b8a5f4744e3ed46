-- Removes tokens that are good no longer. In: the time (or null). There are few.
delete from punctual_tokens where expires_at <= {now}
