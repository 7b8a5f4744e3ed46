-- Forgets the story of a job that nobody runs. In: seq. Index: primary key, one event after the other.
with story (event) as (
    select j.last_event from openjson(@P1) with (seq bigint '$[0]') i join punctual_jobs j with (forceseek) on j.seq = i.seq
    union all
    select e.previous from story join punctual_events e with (forceseek) on e.seq = story.event where e.previous is not null)
delete t from punctual_events t with (forceseek, rowlock) join story on t.seq = story.event option (maxrecursion 0)
