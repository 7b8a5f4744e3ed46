-- Stores a workflow. In: the time (or null), id, name, who submitted it, how many jobs it has.
insert into punctual_workflows (id, name, created_by, created_at, updated_at, total)
values ($2::uuid, $3::text, $4::text, {now}, {now}, $5::int4)
