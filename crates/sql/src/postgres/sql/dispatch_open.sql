-- Somebody opens a queue, if nobody else has in its epoch. In: queue, epoch. Rows changed: 1 if it was them.
update punctual_dispatch_queues set opened = true
where queue = $1::text and epoch = $2::int8 and not opened and opens_at <= clock_timestamp()
