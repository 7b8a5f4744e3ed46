-- name: queues
-- The settings of queues, by name; and apart from them, whether a queue is paused, and whether it may be limited. Reads the whole table,
-- which is small.
select name, settings, revision, updated_at, updated_by, paused, true from punctual_queues order by name

-- name: save_queue
-- Saves the settings of a queue, if its revision is the given one. In: name, paused, settings, revision, now, actor.
-- Rows changed: 1, or 0 if another process changed the settings first. Index: primary key.
insert into punctual_queues as q (name, paused, settings, revision, updated_at, updated_by)
select $1::text, $2::bool, $3::text, 1, $5::timestamptz, $6::text
where $4::int8 = 0 or exists (select from punctual_queues where name = $1::text)
on conflict (name) do update set paused = excluded.paused, settings = excluded.settings, revision = q.revision + 1,
    updated_at = excluded.updated_at, updated_by = excluded.updated_by
where q.revision = $4::int8

-- name: insert_queue_event
-- Adds to the history of a queue. In: queue, now, actor, action.
insert into punctual_queue_events (queue, at, actor, action) values ($1::text, $2::timestamptz, $3::text, $4::text)

-- name: queue_events
-- The history of a queue, latest first. In: queue, the limit. Index: punctual_queue_events_queue, backwards.
select at, actor, action from punctual_queue_events where queue = $1::text order by id desc limit $2::int8
