-- Stores a workflow. In: id, name, who submitted it, now, how many jobs it has.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total) values (@P1, @P2, @P3, @P4, @P4, @P5)
