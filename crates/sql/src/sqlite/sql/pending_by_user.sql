-- Unfinished jobs by user and name. Reads the hot tables, which hold all that is unfinished, and the jobs in them.
select j.user_id, j.name, count(*)
from (select job from punctual_ready union all select job from punctual_due union all select job from punctual_running) p
join punctual_jobs j on j.seq = p.job
where j.user_id is not null group by j.user_id, j.name
