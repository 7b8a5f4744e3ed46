-- The dispatcher hands jobs out for longer. In: how much, in microseconds; how long nobody does if it has not until now.
-- Out: whether it has not. Who works lately is in the register.
with f as materialized (select until from punctual_dispatch for update),
n as materialized (
    select clock_timestamp() + case
        when exists (select from punctual_workers where seen_at > now() - interval '1 minute') then $2::int8 else 0 end * interval '1 microsecond' as opens_at)
insert into punctual_dispatch as d (until, opens_at)
select clock_timestamp() + $1::int8 * interval '1 microsecond', n.opens_at from n
on conflict (only_one) do update set until = excluded.until,
    opens_at = case when d.until < clock_timestamp() then excluded.opens_at else d.opens_at end
returning not exists (select from f where f.until >= clock_timestamp())
