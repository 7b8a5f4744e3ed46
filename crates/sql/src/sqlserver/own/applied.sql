-- The migrations that were applied, oldest first. Index: the whole primary key.
select version, name, checksum, applied_at from punctual_schema order by version
