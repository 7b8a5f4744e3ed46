-- Removes old attempts among those of the oldest jobs. In: cutoff, how many to look at. Index: primary key.
delete a from punctual_attempts a
join (select top (@P2) job, run, finished_at from punctual_attempts order by job, run) o on o.job = a.job and o.run = a.run
where o.finished_at <= @P1
