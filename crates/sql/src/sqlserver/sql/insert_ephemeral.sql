-- A job that is dropped at restart.
insert into punctual_ephemeral (job)
select i.job
from openjson(@P1) with (job bigint '$[0]') i
