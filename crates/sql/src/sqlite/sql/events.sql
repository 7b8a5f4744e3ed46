-- The events of a job, latest first. In: seq. Index: rowid, one event after the other.
with recursive story (event) as (
    select last_event from punctual_jobs_now where seq = ?1
    union all
    select e.previous from story cross join punctual_events e on e.seq = story.event where e.previous is not null)
select e.seq, e.at, e.status, e.run, e.actor, e.detail from story cross join punctual_events e on e.seq = story.event
