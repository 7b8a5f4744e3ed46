-- What another store counted. In: hour, name, queue, measure, bucket, how many. Rows changed: 0 if it is known. Index: primary key.
insert into punctual_tallies (hour, name, queue, measure, bucket, n) select @P1, @P2, @P3, @P4, @P5, @P6
where not exists (select 1 from punctual_tallies where hour = @P1 and name = @P2 and queue = @P3 and measure = cast(@P4 as varchar(16)) and bucket = @P5)
