-- Somebody opens a queue, if nobody else has in its epoch. In: queue, epoch. Rows changed: 1 if it was them.
update punctual_dispatch_queues set opened_at = clock_timestamp()
where queue = $1::text and epoch = $2::int8 and opened_at is null and opens_at <= clock_timestamp()
