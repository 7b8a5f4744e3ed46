-- One transition. It names the job's event before it, by which the story is found from its end.
-- In: seq, job, the event before, at, status, run, actor, detail.
insert into punctual_events (seq, job, previous, at, status, run, actor, detail)
select i.seq, i.job, i.previous, i.at, i.status, i.run, i.actor, i.detail
from openjson(@P1) with (
    seq bigint '$[0]', job bigint '$[1]', previous bigint '$[2]', at bigint '$[3]', status varchar(16) '$[4]', run int '$[5]',
    actor nvarchar(512) '$[6]', detail nvarchar(max) '$[7]') i
