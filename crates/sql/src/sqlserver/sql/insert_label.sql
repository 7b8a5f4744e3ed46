-- A user, correlation id or tag of a job.
insert into punctual_labels (kind, value, id, job)
select distinct i.kind collate Latin1_General_BIN2, i.value collate Latin1_General_BIN2, cast(cast(i.id as uniqueidentifier) as binary(16)), i.job
from openjson(@P1) with (kind varchar(16) '$[0]', value nvarchar(512) '$[1]', id char(36) '$[2]', job bigint '$[3]') i
where not exists (select 1 from punctual_labels l with (forceseek) where l.kind = i.kind collate Latin1_General_BIN2 and l.value = i.value collate Latin1_General_BIN2
    and l.id = cast(cast(i.id as uniqueidentifier) as binary(16)))
