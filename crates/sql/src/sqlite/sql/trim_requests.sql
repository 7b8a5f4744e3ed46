-- Forgets requests from before a time, so many. In: the time, how many.
delete from punctual_requests where key in (select key from punctual_requests where at < ?1 order by at limit ?2)
