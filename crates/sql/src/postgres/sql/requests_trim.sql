-- Forgets requests from before a time, so many. In: the time, how many. Index: punctual_requests_at.
delete from punctual_requests where key in (select key from punctual_requests where at < $1::timestamptz order by at limit $2::int8)
