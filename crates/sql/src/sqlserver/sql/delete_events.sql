-- Forgets the story of a job that nobody runs. In: seq. Index: primary key, one event after the other.
with story (event) as (
    select last_event from punctual_jobs where seq = @P1
    union all
    select e.previous from story join punctual_events e on e.seq = story.event where e.previous is not null)
delete from punctual_events where seq in (select event from story) option (maxrecursion 0)
