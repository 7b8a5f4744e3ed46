-- name: heartbeat
-- Registers a worker, or records its heartbeat.
update punctual_workers set running = @P7, seen_at = @P8 where id = @P1;
if @@rowcount = 0 insert into punctual_workers (id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by)
values (@P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P8, @P9)

-- name: deregister
-- Removes a worker. Index: primary key.
delete from punctual_workers where id = @P1

-- name: workers
-- All registered workers.
select id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by from punctual_workers
order by started_at, id
