-- One line of a log; a line that is there already (a write that was tried again) stays.
-- In: id, run, line, at, level, message. Index: the unique one on id.
insert into punctual_logs (job, run, line, at, level, message)
select seq, @P2, @P3, @P4, @P5, @P6 from punctual_jobs j where id = @P1
    and not exists (select 1 from punctual_logs l where l.job = j.seq and l.run = @P2 and l.line = @P3)
