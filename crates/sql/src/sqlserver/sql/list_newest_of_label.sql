-- The same for one user, correlation id or tag. In: before which id, kind, value, how many. Index: primary key, backwards; then primary key.
select top (@P4) j.seq, j.id, case when r.job is null then j.status else 'processing' end, j.queue, j.name, j.user_id,
    j.correlation_id, j.options
from punctual_labels l join punctual_jobs j on j.seq = l.job left join punctual_running r on r.job_id = j.id
where l.kind = cast(@P2 as varchar(16)) and l.value = @P3 and l.id < @P1 order by l.id desc
