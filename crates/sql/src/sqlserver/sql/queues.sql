-- name: queues
-- The settings of queues, by name; and apart from them, whether a queue is paused, and whether it may be limited. Reads the whole table,
-- which is small.
select name, settings, revision, updated_at, updated_by, paused, limited from punctual_queues order by name

-- name: save_queue
-- Saves the settings of a queue, if its revision is the given one. In: name, paused, settings, revision, now, actor, limited.
-- Rows changed: 1, or 0 if another process changed the settings first. Index: primary key.
update punctual_queues set paused = @P2, settings = @P3, revision = revision + 1, updated_at = @P5, updated_by = @P6, limited = @P7
where name = @P1 and revision = @P4;
if @@rowcount = 0 and @P4 = 0 insert into punctual_queues (name, paused, settings, revision, updated_at, updated_by, limited)
select @P1, @P2, @P3, 1, @P5, @P6, @P7 where not exists (select 1 from punctual_queues where name = @P1)

-- name: insert_queue_event
-- Adds to the history of a queue. In: queue, now, actor, action.
insert into punctual_queue_events (queue, at, actor, action) values (@P1, @P2, @P3, @P4)

-- name: queue_events
-- The history of a queue, latest first. In: queue, the limit. Index: punctual_queue_events_queue, backwards.
select top (@P2) at, actor, action from punctual_queue_events where queue = @P1 order by id desc
