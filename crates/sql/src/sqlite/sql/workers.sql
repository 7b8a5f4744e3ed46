-- name: heartbeat
-- Registers a worker, or records its heartbeat.
insert into punctual_workers (id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)
on conflict (id) do update set running = excluded.running, seen_at = excluded.seen_at

-- name: deregister
-- Removes a worker. Index: primary key.
delete from punctual_workers where id = ?1

-- name: workers
-- All registered workers.
select id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by from punctual_workers
order by started_at, id
