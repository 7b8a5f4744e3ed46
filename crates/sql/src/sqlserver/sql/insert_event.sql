-- One transition. It names the job's event before it, by which the story is found from its end.
-- In: seq, job, the event before, at, status, run, actor, detail.
insert into punctual_events (seq, job, previous, at, status, run, actor, detail) values (@P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8)
