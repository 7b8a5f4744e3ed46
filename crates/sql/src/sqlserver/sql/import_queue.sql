-- What another store knew of a queue. In: its columns. Rows changed: 1, or 0 if something is known of it. Index: primary key.
insert into punctual_queues (name, paused, settings, revision, updated_at, updated_by, limited)
select @P1, @P2, @P3, @P4, @P5, @P6, @P7 where not exists (select 1 from punctual_queues where name = @P1)
