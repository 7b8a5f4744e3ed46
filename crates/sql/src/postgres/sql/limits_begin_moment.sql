-- Starts that are counted as later than now, in moments of a rate that is another now, are counted as of now. In: the time (or null), the queue.
-- Index: all of the queue's.
with d as (delete from punctual_limit_starts where queue = $2::text and at > {now} returning key, n)
insert into punctual_limit_starts as s (queue, key, at, n) select $2::text, key, {now}, sum(n) from d group by key
on conflict (queue, key, at) do update set n = s.n + excluded.n
