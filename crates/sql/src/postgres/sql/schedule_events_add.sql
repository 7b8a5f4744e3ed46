-- Something was done to schedules. In: the time (or null), then one array a column.
insert into punctual_schedule_events (schedule, at, actor, action)
select schedule, {now}, actor, action from unnest($2::text[], $3::text[], $4::text[]) as u (schedule, actor, action)
