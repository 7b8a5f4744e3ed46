-- Keeps the count of a user's unfinished jobs in step.
insert into punctual_pending (user_id, name, n)
select i.user_id, i.name, i.n
from openjson(@P1) with (user_id nvarchar(512) '$[0]', name nvarchar(256) '$[1]', n bigint '$[2]') i
