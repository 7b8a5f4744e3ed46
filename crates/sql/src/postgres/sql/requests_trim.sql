-- Forgets requests from before a time, so many. In: the time, how many. Index: punctual_idempotency_at.
delete from punctual_idempotency where key in (select key from punctual_idempotency where at < $1::timestamptz order by at limit $2::int8)
