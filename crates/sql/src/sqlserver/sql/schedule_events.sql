-- What was done to a schedule. In: its name, how many. Index: punctual_schedule_events_schedule, backwards.
select top (@P2) at, actor, action from punctual_schedule_events where schedule = @P1 order by id desc
