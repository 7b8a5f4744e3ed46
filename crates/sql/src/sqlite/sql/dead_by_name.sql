-- Jobs that died in a period and are still dead, by name. Sorts one row for each name.
-- In: since, until. Out: name, how many. Index: a range of the primary key, nothing else.
select name, count(*) from punctual_dead where died_at >= ?1 and died_at < ?2 group by name order by 2 desc, 1
