-- Removes a schedule. In: its name. Index: primary key.
delete from punctual_schedules where name = @P1
