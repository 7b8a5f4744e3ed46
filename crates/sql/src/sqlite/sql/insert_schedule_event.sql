-- Something was done to a schedule. In: its name, when, by whom, what.
insert into punctual_schedule_events (schedule, at, actor, action) values (?1, ?2, ?3, ?4)
