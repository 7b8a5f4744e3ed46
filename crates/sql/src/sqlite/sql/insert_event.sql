-- One transition.
insert into punctual_events (job, at, status, run, actor, detail) values (?1, ?2, ?3, ?4, ?5, ?6)
