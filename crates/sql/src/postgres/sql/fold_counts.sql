-- Adds up the changes of the counters.
with d as (delete from punctual_counts_new returning *)
insert into punctual_counts as c (lane, status, n)
select lane, status, sum(n) from d group by lane, status order by lane, status
on conflict (lane, status) do update set n = c.n + excluded.n
