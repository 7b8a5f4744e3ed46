-- The dispatcher knows all jobs of a queue. In: queue, epoch.
update punctual_dispatch_queues set loaded = true where queue = $1::text and epoch = $2::int8
