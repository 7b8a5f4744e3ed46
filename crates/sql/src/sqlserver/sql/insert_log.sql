-- One line of a log; a line that is there already (a write that was tried again) stays.
-- In: id, run, line, at, level, message. Index: the unique one on id.
insert into punctual_logs (job, run, line, at, level, message)
select j.seq, i.run, i.line, i.at, i.level, i.message
from openjson(@P1) with (
    id char(36) '$[0]', run int '$[1]', line int '$[2]', at bigint '$[3]', level varchar(16) '$[4]', message nvarchar(max) '$[5]') i
join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16))
where not exists (select 1 from punctual_logs l with (forceseek) where l.job = j.seq and l.run = i.run and l.line = i.line)
