-- The queues that the dispatcher has been given, and for each the microseconds until it opens.
select queue, epoch, (date_part('epoch', opens_at - clock_timestamp()) * 1000000)::int8, opened, loaded from punctual_dispatch_queues
