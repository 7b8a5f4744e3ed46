-- Removes old log lines among those of the oldest jobs. In: cutoff, how many to look at. Index: primary key.
delete l from punctual_logs l
join (select top (@P2) job, run, line, at from punctual_logs order by job, run, line) o on o.job = l.job and o.run = l.run and o.line = l.line
where o.at <= @P1
