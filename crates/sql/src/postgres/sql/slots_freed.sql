-- The part that slots_release.sql and slots_release_of.sql share: what follows for the keys of slots that have gone.
m as (insert into punctual_limit_wakeups (queue, at, key) select distinct queue, {now}, limit_key from d where limit_key <> ''),
x as (
    delete from punctual_limit_wakeups m using d
    where m.queue = d.queue and m.at = d.lease_until and m.key = d.limit_key and not exists (
        select from punctual_occupied_slots o
        where o.queue = d.queue and o.limit_key = d.limit_key and o.lease_until = d.lease_until
            and not exists (select from d e where e.job_id = o.job_id and e.run = o.run)))
select count(*) from d
