-- Events in the order of their numbers, with what their jobs are selected by; those that nobody has committed are left out. What is read of a job never changes,
-- so that nobody waits for it. In: from which number
-- on, before which one, how many. Index: primary keys.
select top (@P3) e.seq, e.at, e.status, e.run, e.actor, e.detail, j.id, j.queue, j.name, j.user_id, j.correlation_id, j.workflow_id, j.options
from punctual_events e with (readcommittedlock, readpast, rowlock)
join punctual_jobs j with (forceseek, readuncommitted) on j.seq = e.job
where e.seq >= @P1 and e.seq < @P2 order by e.seq
