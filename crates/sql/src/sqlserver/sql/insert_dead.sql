-- A job has died.
insert into punctual_dead (died_at, job, name)
select i.died_at, i.job, i.name
from openjson(@P1) with (died_at bigint '$[0]', job bigint '$[1]', name nvarchar(256) '$[2]') i
