-- Something was done to a schedule. In: its name, when, by whom, what.
insert into punctual_schedule_events (schedule, at, actor, action) values (@P1, @P2, @P3, @P4)
