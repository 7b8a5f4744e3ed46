-- How much longer the dispatcher hands jobs out, in microseconds; less than nothing since it has not. The time up to which it knows jobs that
-- wait for one. No row where there is none.
select (date_part('epoch', until - clock_timestamp()) * 1000000)::int8, due_until from punctual_dispatch
