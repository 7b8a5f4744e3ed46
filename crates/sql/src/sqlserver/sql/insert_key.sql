-- A job takes a unique key, perhaps from one that is no longer in the way. In: scope, key, job, until when. Index: primary key.
update k set job = i.job, expires_at = i.expires_at
from openjson(@P1) with (scope nvarchar(512) '$[0]', [key] nvarchar(1024) '$[1]', job bigint '$[2]', expires_at bigint '$[3]') i
join punctual_keys k with (forceseek, rowlock) on k.scope = i.scope collate Latin1_General_BIN2 and k.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32));
insert into punctual_keys (scope, [key], job, expires_at, hash)
select i.scope, i.[key], i.job, i.expires_at, cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (scope nvarchar(512) '$[0]', [key] nvarchar(1024) '$[1]', job bigint '$[2]', expires_at bigint '$[3]') i
where not exists (select 1 from punctual_keys k with (forceseek) where k.scope = i.scope collate Latin1_General_BIN2 and k.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)))
