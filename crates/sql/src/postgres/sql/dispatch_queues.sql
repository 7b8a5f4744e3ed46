-- The queues that the dispatcher has been given, and for each the microseconds until it opens, and since when it is open.
select queue, epoch, (date_part('epoch', greatest(opens_at, clock_timestamp() - interval '1 day') - clock_timestamp()) * 1000000)::int8,
    (date_part('epoch', clock_timestamp() - opened_at) * 1000000)::int8, loaded
from punctual_dispatch_queues
