-- How much longer the dispatcher hands jobs out, in microseconds; less than nothing since it has not. The time up to which it knows jobs that
-- wait for one, and what it knows this store by.
select (date_part('epoch', greatest(until, clock_timestamp() - interval '1 day') - clock_timestamp()) * 1000000)::int8, due_until, ledger
from punctual_dispatch
