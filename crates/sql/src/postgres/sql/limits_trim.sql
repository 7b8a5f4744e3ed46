-- Removes what limits need not remember. In: how many; queues, and up to when starts count no more in each; queues whose keys take turns.
-- In besides: the time. Reads the tables whole, once in a while.
with s as (
    delete from punctual_limit_starts where (queue, key, at) in (
        select s.queue, s.key, s.at from punctual_limit_starts s
        where s.at <= coalesce((select u.horizon from unnest($2::text[], $3::timestamptz[]) u (queue, horizon) where u.queue = s.queue), 'infinity')
        limit $1::int8)),
o as (delete from punctual_occupied_slots where lease_until <= $5::timestamptz)
delete from punctual_limit_fairness where (queue, key) in (
    select t.queue, t.key from punctual_limit_fairness t where not (t.queue = any ($4::text[])) limit $1::int8)
