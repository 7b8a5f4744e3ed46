-- What was done to a schedule. In: its name, how many. Index: punctual_schedule_events_schedule, backwards.
select at, actor, action from punctual_schedule_events where schedule = ?1 order by id desc limit ?2
