-- Removes old attempts among those of the oldest jobs. In: cutoff, how many to look at. Index: primary key.
delete from punctual_attempts where (job, run) in (
    select job, run from (select job, run, finished_at from punctual_attempts order by job, run limit ?2)
    where finished_at <= ?1)
