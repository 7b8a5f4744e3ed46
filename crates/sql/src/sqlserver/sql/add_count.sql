-- Keeps the count of a queue, name and status in step.
insert into punctual_counts (queue, name, status, n)
select i.queue, i.name, i.status, i.n
from openjson(@P1) with (queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', status varchar(16) '$[2]', n bigint '$[3]') i
