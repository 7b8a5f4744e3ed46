-- The dispatcher hands jobs out for longer. In: how much, in microseconds; how long nobody does if it has not until now, unless nobody
-- works at all. Out: whether it has not.
with f as materialized (select d.until < clock_timestamp() as lapsed from punctual_dispatch d for update)
update punctual_dispatch d set until = clock_timestamp() + $1::int8 * interval '1 microsecond',
    opens_at = case when f.lapsed and exists (select from punctual_workers where seen_at > now() - interval '1 minute')
        then clock_timestamp() + $2::int8 * interval '1 microsecond' else d.opens_at end
from f returning f.lapsed
