-- The same for one name. Index: punctual_jobs_name, backwards.
select j.seq, j.id, case when r.job is null then j.status else 'processing' end, j.queue, j.name, j.user_id,
    j.correlation_id, j.options
from punctual_jobs j left join punctual_running r on r.job_id = j.id
where j.id < ?1 and j.name = ?2 order by j.id desc limit ?3
