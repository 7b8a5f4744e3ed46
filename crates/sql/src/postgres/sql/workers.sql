-- name: heartbeat
-- Registers a worker, or records its heartbeat. A loss of power may undo it. The time may be null.
insert into punctual_workers (id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by)
values ($1::uuid, $2::text, $3::int8, array(select json_array_elements_text($4::text::json)),
    array(select json_array_elements_text($5::text::json)), $6::int8, $7::int8, coalesce($8::timestamptz, now()),
    coalesce($8::timestamptz, now()), $9::uuid)
on conflict (id) do update set running = excluded.running, seen_at = excluded.seen_at
returning (select set_config('synchronous_commit', 'off', true))

-- name: deregister
-- Removes a worker. Index: primary key.
delete from punctual_workers where id = $1::uuid

-- name: workers
-- All registered workers.
select id, host, pid, to_json(queues)::text, to_json(names)::text, concurrency, running, started_at, seen_at, registered_by
from punctual_workers order by started_at, id
