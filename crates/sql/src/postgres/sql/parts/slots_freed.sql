-- The part that slots_release and slots_release_of share: wake-ups for the keys of the released slots.
inserted_limit_wakeups as (
    insert into punctual_limit_wakeups (queue, at, key)
    select distinct queue, {now}, limit_key from deleted_slots where limit_key <> ''),
deleted_limit_wakeups as (
    delete from punctual_limit_wakeups w using deleted_slots s
    where w.queue = s.queue and w.at = s.lease_until and w.key = s.limit_key and not exists (
        select from punctual_occupied_slots o
        where o.queue = s.queue and o.limit_key = s.limit_key and o.lease_until = s.lease_until
            and not exists (select from deleted_slots d where d.job_id = o.job_id and d.run = o.run)))
select count(*) from deleted_slots
