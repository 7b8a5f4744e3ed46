-- A finished job goes at its own time.
insert into punctual_expiries (expires_at, job)
select i.expires_at, i.job
from openjson(@P1) with (expires_at bigint '$[0]', job bigint '$[1]') i
