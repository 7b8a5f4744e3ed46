-- The log of a job, oldest first. In: seq, how many. Index: primary key.
select top (@P2) run, at, level, message from punctual_logs where job = @P1 order by run, line
