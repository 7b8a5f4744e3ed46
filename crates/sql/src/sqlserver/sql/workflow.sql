-- A workflow. In: id. Index: primary key.
select id, name, created_by, created_at, updated_at, total, succeeded, dead, cancelled from punctual_workflows where id = @P1
