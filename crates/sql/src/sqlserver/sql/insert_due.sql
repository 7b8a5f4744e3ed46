-- Lets a job wait for its time.
insert into punctual_due (run_at, job)
select i.run_at, i.job
from openjson(@P1) with (run_at bigint '$[0]', job bigint '$[1]') i
