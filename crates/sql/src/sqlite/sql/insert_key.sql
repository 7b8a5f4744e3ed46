-- A job takes a unique key, perhaps from one that is no longer in the way. In: scope, key, job, until when. Index: primary key.
insert into punctual_keys (scope, key, job, expires_at) values (?1, ?2, ?3, ?4)
on conflict (scope, key) do update set job = excluded.job, expires_at = excluded.expires_at
