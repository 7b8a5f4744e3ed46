-- The dispatcher hands jobs out for longer. In: how much, in microseconds; how long what it handed out last may have been unknown here, if it has
-- not handed out any for a time; whether the caller claims jobs; for how many microseconds others do not prolong after one that does has missed it.
-- Out: whether it has not handed out any for a time; nothing if it was not prolonged.
with f as materialized (
    select d.until < clock_timestamp() as lapsed from punctual_dispatch d
    where $3::bool or coalesce(d.unreachable_at < clock_timestamp() - $4::int8 * interval '1 microsecond', true) for update)
update punctual_dispatch d set until = clock_timestamp() + $1::int8 * interval '1 microsecond',
    opens_at = case when f.lapsed then d.until + $2::int8 * interval '1 microsecond' else d.opens_at end
from f returning f.lapsed
