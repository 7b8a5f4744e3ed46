-- Takes the marks of keys that are to be looked at now. In: the time (or null), queues, how many of each. Out: queues and keys.
-- Index: the head of punctual_limit_wakeups_time for each queue.
with c as materialized (
    select m.place from unnest($2::text[]) q (queue) cross join lateral (
        select m.ctid as place from punctual_limit_wakeups m where m.queue = q.queue and m.at <= {now} order by m.at limit $3::int8) m)
delete from punctual_limit_wakeups where ctid = any (array(select place from c)) returning queue, key
