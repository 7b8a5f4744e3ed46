-- Adds up the changes of the rollups.
with d as (delete from punctual_rollups_new returning *)
insert into punctual_rollups as c (hour, lane, measure, bucket, n)
select hour, lane, measure, bucket, sum(n) from d group by 1, 2, 3, 4 order by 1, 2, 3, 4
on conflict (hour, lane, measure, bucket) do update set n = c.n + excluded.n
