-- The part that slots_release.sql and slots_release_of.sql share: what follows for the keys of slots that have gone.
m as (insert into punctual_marks (queue, at, key) select distinct queue, {now}, gate from d where gate <> ''),
x as (
    delete from punctual_marks m using d
    where m.queue = d.queue and m.at = d.lease_until and m.key = d.gate and not exists (
        select from punctual_occupied_slots o
        where o.queue = d.queue and o.gate = d.gate and o.lease_until = d.lease_until
            and not exists (select from d e where e.job_id = o.job_id and e.run = o.run)))
select count(*) from d
