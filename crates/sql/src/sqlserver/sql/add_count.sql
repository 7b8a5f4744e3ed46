-- Keeps the count of a queue, name and status in step.
update punctual_counts set n = n + @P4 where queue = @P1 and name = @P2 and status = @P3
if @@rowcount = 0 insert into punctual_counts (queue, name, status, n) values (@P1, @P2, @P3, @P4)
