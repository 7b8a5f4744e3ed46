-- Changes what is said of a queue, if it was changed so often before. In: name, paused, settings, how often, now, by whom, limited.
-- Rows changed: 1, or 0 if somebody else was first. Index: primary key.
insert into punctual_queues (name, paused, settings, revision, updated_at, updated_by, limited)
select ?1, ?2, ?3, 1, ?5, ?6, ?7 where ?4 = 0 or exists (select 1 from punctual_queues where name = ?1)
on conflict (name) do update set paused = excluded.paused, settings = excluded.settings, revision = revision + 1,
    updated_at = excluded.updated_at, updated_by = excluded.updated_by, limited = excluded.limited
where revision = ?4
