-- A job waits for others. In: run_at, job, whether a parent has failed already.
insert into punctual_waiting (run_at, job, any_failed)
select i.run_at, i.job, i.any_failed
from openjson(@P1) with (run_at bigint '$[0]', job bigint '$[1]', any_failed bit '$[2]') i
