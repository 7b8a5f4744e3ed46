-- How a parent stands. In: id. Out: its place, its status. Index: the unique one on id, then the primary key of what is running.
select j.seq, case when r.job is null then j.status else 'processing' end
from punctual_jobs j left join punctual_running r on r.job_id = j.id where j.id = @P1
