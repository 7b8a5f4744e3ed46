-- The dispatcher hands jobs out for longer. In: how much, in microseconds; how long what it handed out last may have been unknown here, if it has
-- not handed out any for a time. Out: whether it has not.
with f as materialized (select d.until < clock_timestamp() as lapsed from punctual_dispatch d for update)
update punctual_dispatch d set until = clock_timestamp() + $1::int8 * interval '1 microsecond',
    opens_at = case when f.lapsed then d.until + $2::int8 * interval '1 microsecond' else d.opens_at end
from f returning f.lapsed
