-- Keeps the count of a user's unfinished jobs in step.
update punctual_pending set n = n + @P3 where user_id = @P1 and name = @P2
if @@rowcount = 0 insert into punctual_pending (user_id, name, n) values (@P1, @P2, @P3)
