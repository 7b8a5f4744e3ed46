-- A gate has started jobs. In: queue, key, when, how many.
update punctual_starts set n = n + @P4 where queue = @P1 and hash = hashbytes('sha2_256', @P2) and at = @P3;
if @@rowcount = 0 insert into punctual_starts (queue, [key], at, n) values (@P1, @P2, @P3, @P4)
