-- Forgets the story of a job that nobody runs. In: seq. Index: rowid, one event after the other.
with recursive story (event) as (
    select last_event from punctual_jobs where seq = ?1
    union all
    select e.previous from story cross join punctual_events e on e.seq = story.event where e.previous is not null)
delete from punctual_events where seq in (select event from story)
