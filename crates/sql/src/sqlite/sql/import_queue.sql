-- What another store knew of a queue. In: its columns. Rows changed: 1, or 0 if something is known of it. Index: primary key.
insert into punctual_queues (name, paused, settings, revision, updated_at, updated_by, limited)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict (name) do nothing
