-- A unique key that another store knew, unless it is taken. In: scope, key, job, until when. Index: primary key.
insert into punctual_keys (scope, key, job, expires_at) values (?1, ?2, ?3, ?4) on conflict (scope, key) do nothing
