-- Removes workflows of which no job is left, once nothing has happened to them for some time.
-- In: since when, how many, the greatest id of that time. Index: a range of the primary key.
delete from punctual_workflows where id in (
    select top (@P2) w.id from punctual_workflows w
    where w.id <= @P3 and w.updated_at <= @P1 and not exists (select 1 from punctual_nodes n where n.workflow = w.id))
