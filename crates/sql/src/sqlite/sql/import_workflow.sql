-- A workflow that another store knew. In: its columns. Rows changed: 1, or 0 if it is known. Index: primary key.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total, succeeded, dead, cancelled)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) on conflict (id) do nothing
