-- Adds up the changes of the tallies.
with d as (delete from punctual_tallies_new returning *)
insert into punctual_tallies as c (hour, lane, measure, bucket, n)
select hour, lane, measure, bucket, sum(n) from d group by 1, 2, 3, 4 order by 1, 2, 3, 4
on conflict (hour, lane, measure, bucket) do update set n = c.n + excluded.n
