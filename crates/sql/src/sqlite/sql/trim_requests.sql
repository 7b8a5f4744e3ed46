-- Forgets requests from before a time, so many. In: the time, how many.
delete from punctual_idempotency where key in (select key from punctual_idempotency where at < ?1 order by at limit ?2)
