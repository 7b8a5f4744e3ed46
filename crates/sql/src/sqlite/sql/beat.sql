-- A worker is there.
insert into punctual_workers (id, host, pid, queues, names, concurrency, running, started_at, seen_at, registered_by)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)
on conflict (id) do update set running = excluded.running, seen_at = excluded.seen_at
