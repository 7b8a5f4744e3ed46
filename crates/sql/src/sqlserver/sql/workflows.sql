-- Workflows, latest first. In: before which id, how many. Index: the primary key, backwards.
select top (@P2) id, name, created_by, created_at, updated_at, total, succeeded, dead, cancelled from punctual_workflows where id < @P1
order by id desc
