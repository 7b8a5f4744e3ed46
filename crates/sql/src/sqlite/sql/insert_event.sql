-- One transition. It names the job's event before it, by which the story is found from its end.
-- In: seq, job, the event before, at, status, run, actor, detail.
insert into punctual_events (seq, job, previous, at, status, run, actor, detail) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
