-- A key, or a queue, has come so far. In: queue, key, turn.
update punctual_turns set turn = @P3 where queue = @P1 and hash = hashbytes('sha2_256', @P2);
if @@rowcount = 0 insert into punctual_turns (queue, [key], turn) values (@P1, @P2, @P3)
