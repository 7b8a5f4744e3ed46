-- How much longer the dispatcher hands jobs out, in microseconds; less than nothing since it has not. The time up to which it knows jobs that
-- wait for one, what it knows this store by, for how many microseconds ago somebody missed it, and which run of the server this is.
select (date_part('epoch', greatest(until, clock_timestamp() - interval '1 day') - clock_timestamp()) * 1000000)::int8, due_until, store_id,
    (date_part('epoch', clock_timestamp() - unreachable_at) * 1000000)::int8, (date_part('epoch', pg_postmaster_start_time()) * 1000000)::int8
from punctual_dispatch
