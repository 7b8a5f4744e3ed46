-- Forgets requests from before a time, so many. In: the time, how many.
delete from punctual_idempotency where hash in (select top (@P2) hash from punctual_idempotency where at < @P1 order by at)
