-- How many jobs of queues are held. In: queues. Out: queue, how many. Reads all that is held, which is as much as all workers run.
select n.queue, count(*) from punctual_running r cross join lateral (select queue from punctual_lanes n where n.lane = r.lane limit 1) n
where n.queue = any ($1::text[]) group by n.queue
