-- What is said of queues, by name. Reads the whole table, which is small.
select name, settings, revision, updated_at, updated_by from punctual_queues order by name
