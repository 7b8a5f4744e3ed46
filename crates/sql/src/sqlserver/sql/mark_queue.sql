-- All keys of a queue that have anything queued are to be looked at. In: queue. Index: a range of the primary key.
insert into punctual_limit_wakeups (queue, at, [key], hash)
select k.queue, 0, k.[key], k.hash from punctual_keyed k where k.queue = @P1
    and not exists (select 1 from punctual_limit_wakeups m where m.queue = k.queue and m.at = 0 and m.hash = k.hash)
group by k.queue, k.[key], k.hash
