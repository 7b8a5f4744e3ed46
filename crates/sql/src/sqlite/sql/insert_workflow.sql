-- Stores a workflow. In: id, name, who submitted it, now, how many jobs it has.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total) values (?1, ?2, ?3, ?4, ?4, ?5)
