-- Events after one, in the order in which they were stored, with what their jobs are selected by. In: its number, how many. Index: primary keys.
select top (@P2) e.seq, e.at, e.status, e.run, e.actor, e.detail, j.id, j.queue, j.name, j.user_id, j.correlation_id, j.workflow_id, j.extras
from punctual_events e with (readpast) join punctual_jobs j on j.seq = e.job where e.seq > @P1 order by e.seq
