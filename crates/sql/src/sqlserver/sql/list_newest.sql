-- Jobs by id, latest first. In: before which id, how many. Index: the unique one on id, backwards.
select top (@P2) j.seq, j.id, case when r.job is null then j.status else 'processing' end, j.queue, j.name, j.user_id,
    j.correlation_id, j.options
from punctual_jobs j left join punctual_running r on r.job_id = j.id
where j.id < @P1 order by j.id desc
