-- All workers on the register.
select id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by from punctual_workers
order by started_at, id
