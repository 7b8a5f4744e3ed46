-- What was done to a schedule. In: its name, how many. Index: punctual_schedule_events_schedule, backwards.
select at, actor, action from punctual_schedule_events where schedule = $1::text order by id desc limit $2::int8
