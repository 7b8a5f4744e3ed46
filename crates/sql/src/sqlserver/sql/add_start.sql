-- Counts starts under a limit. In: queue, key, when, how many.
update s set n = s.n + i.n
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', at bigint '$[2]', n bigint '$[3]') i
join punctual_limit_starts s with (forceseek, rowlock) on s.queue = i.queue collate Latin1_General_BIN2 and s.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and s.at = i.at;
insert into punctual_limit_starts (queue, [key], at, n, hash)
select i.queue, i.[key], i.at, i.n, cast(hashbytes('sha2_256', i.[key]) as binary(32))
from openjson(@P1) with (queue nvarchar(256) '$[0]', [key] nvarchar(1024) '$[1]', at bigint '$[2]', n bigint '$[3]') i
where not exists (select 1 from punctual_limit_starts s with (forceseek) where s.queue = i.queue collate Latin1_General_BIN2 and s.hash = cast(hashbytes('sha2_256', i.[key]) as binary(32)) and s.at = i.at)
