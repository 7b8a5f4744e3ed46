-- A unique key that another store knew, unless it is taken. In: scope, key, job, until when. Index: primary key.
insert into punctual_keys (scope, [key], job, expires_at, hash) select @P1, @P2, @P3, @P4, cast(hashbytes('sha2_256', @P2) as binary(32))
where not exists (select 1 from punctual_keys where scope = @P1 and hash = cast(hashbytes('sha2_256', @P2) as binary(32)))
