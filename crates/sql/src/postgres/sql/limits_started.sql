-- Starts of limited jobs. In: queues, keys, when, how many, and up to when nothing counts any more. Index: primary key.
with f as (
    delete from punctual_limit_starts s using unnest($1::text[], $2::text[], $5::timestamptz[]) u (queue, key, horizon)
    where s.queue = u.queue and s.key = u.key and s.at <= u.horizon)
insert into punctual_limit_starts as s (queue, key, at, n) select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::int8[])
on conflict (queue, key, at) do update set n = s.n + excluded.n
