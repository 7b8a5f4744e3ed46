-- Counts what ended or started in an hour.
update punctual_tallies set n = n + @P6 where hour = @P1 and name = @P2 and queue = @P3 and measure = @P4 and bucket = @P5
if @@rowcount = 0 insert into punctual_tallies (hour, name, queue, measure, bucket, n) values (@P1, @P2, @P3, @P4, @P5, @P6)
