-- The events of a job, oldest first. In: seq. Index: punctual_events_job.
select seq, at, status, run, actor, detail from punctual_events where job = ?1 order by seq
