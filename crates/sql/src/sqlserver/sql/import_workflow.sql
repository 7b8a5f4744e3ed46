-- A workflow that another store knew. In: its columns. Rows changed: 1, or 0 if it is known. Index: primary key.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total, succeeded, dead, cancelled)
select @P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9 where not exists (select 1 from punctual_workflows where id = @P1)
