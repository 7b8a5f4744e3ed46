-- Changes what is said of a queue, if it was changed so often before. In: name, paused, settings, how often, now, by whom, limited.
-- Rows changed: 1, or 0 if somebody else was first. Index: primary key.
update punctual_queues set paused = @P2, settings = @P3, revision = revision + 1, updated_at = @P5, updated_by = @P6, limited = @P7
where name = @P1 and revision = @P4;
if @@rowcount = 0 and @P4 = 0 insert into punctual_queues (name, paused, settings, revision, updated_at, updated_by, limited)
select @P1, @P2, @P3, 1, @P5, @P6, @P7 where not exists (select 1 from punctual_queues where name = @P1)
