-- One line of a log; a line that is there already (a write that was tried again) stays.
-- In: id, run, line, at, level, message. Index: the unique one on id.
insert into punctual_logs (job, run, line, at, level, message)
select seq, ?2, ?3, ?4, ?5, ?6 from punctual_jobs where id = ?1
on conflict do nothing
