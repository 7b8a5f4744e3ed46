-- Forgets requests from before a time, so many. In: the time, how many.
delete from punctual_requests where hash in (select top (@P2) hash from punctual_requests where at < @P1 order by at)
