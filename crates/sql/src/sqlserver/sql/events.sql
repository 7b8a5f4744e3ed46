-- The events of a job, latest first. In: seq. Index: primary key, one event after the other.
with story (event) as (
    select last_event from punctual_jobs_now where seq = @P1
    union all
    select e.previous from story join punctual_events e on e.seq = story.event where e.previous is not null)
select e.seq, e.at, e.status, e.run, e.actor, e.detail from story join punctual_events e on e.seq = story.event
order by e.seq desc option (maxrecursion 0)
