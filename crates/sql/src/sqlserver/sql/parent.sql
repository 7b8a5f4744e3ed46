-- How a parent stands. In: id. Out: its place, its status. Index: the unique one on id, then the primary key of what is running.
select j.seq, case when r.job is null then j.status else 'processing' end, i.place
from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16)) left join punctual_running r with (forceseek) on r.job_id = j.id
