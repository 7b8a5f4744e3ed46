-- A key is to be looked at, from a time on. In: queue, time, key.
insert into punctual_marks (queue, at, [key]) select @P1, @P2, @P3
where not exists (select 1 from punctual_marks where queue = @P1 and at = @P2 and hash = hashbytes('sha2_256', @P3))
