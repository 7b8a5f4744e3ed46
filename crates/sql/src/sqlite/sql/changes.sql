-- Events in the order in which they were stored, with what their jobs are selected by. In: from which number on, before which one, how many. Index: rowids.
select e.seq, e.at, e.status, e.run, e.actor, e.detail, j.id, j.queue, j.name, j.user_id, j.correlation_id, j.workflow_id, j.options
from punctual_events e cross join punctual_jobs j on j.seq = e.job where e.seq >= ?1 and e.seq < ?2 order by e.seq limit ?3
