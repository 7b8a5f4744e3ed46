-- A job is deleted.
insert into punctual_deleted (deleted_at, job)
select i.deleted_at, i.job
from openjson(@P1) with (deleted_at bigint '$[0]', job bigint '$[1]') i
