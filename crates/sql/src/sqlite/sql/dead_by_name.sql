-- Jobs that died in a period and are still dead, by name. Sorts one row for each name.
-- In: since, until. Out: name, how many. Index: a range of punctual_jobs_finished, then rowid.
select name, count(*) from punctual_jobs
where status = 'dead' and finished_at is not null and finished_at >= ?1 and finished_at < ?2
group by name order by 2 desc, 1
