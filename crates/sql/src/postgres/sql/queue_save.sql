-- Changes what is said of a queue, if it was changed so often before. In: the time (or null), name, paused, settings, how often, by whom, what.
-- Rows changed: 1, or 0 if somebody else was first. Index: primary key.
with s as (
    insert into punctual_queues as q (name, paused, settings, revision, updated_at, updated_by)
    select $2::text, $3::bool, $4::text, 1, {now}, $6::text
    where $5::int8 = 0 or exists (select from punctual_queues where name = $2::text)
    on conflict (name) do update set paused = excluded.paused, settings = excluded.settings, revision = q.revision + 1,
        updated_at = excluded.updated_at, updated_by = excluded.updated_by
    where q.revision = $5::int8
    returning name)
insert into punctual_queue_events (queue, at, actor, action) select name, {now}, $6::text, $7::text from s
