-- name: heartbeat
-- Registers a worker, or records its heartbeat. In: the time (or null), then its columns.
insert into punctual_workers (id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by)
select $2::uuid, $3::text, $4::int8, $5::text[], $6::text[], $7::int8, $8::int8, t.now, t.now, $9::uuid
from (select coalesce($1::timestamptz, now()) as now) t
on conflict (id) do update set running = excluded.running, seen_at = excluded.seen_at
returning (select set_config('synchronous_commit', 'off', true))

-- name: deregister
-- Removes a worker. Index: primary key.
delete from punctual_workers where id = $1::uuid

-- name: workers
-- All registered workers.
select id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by from punctual_workers order by started_at, id
