-- A job takes a unique key.
insert into punctual_keys (scope, key, job) values (?1, ?2, ?3)
