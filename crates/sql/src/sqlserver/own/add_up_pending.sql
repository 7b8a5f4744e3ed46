-- Makes one row of those of a user and name. So many at once that it takes an instant. Locks: `punctual` and `punctual sums`.
declare @some table (user_id nvarchar(512) collate Latin1_General_BIN2, name nvarchar(256) collate Latin1_General_BIN2, n bigint);
delete top (20000) from punctual_pending with (readcommittedlock, readpast) output deleted.user_id, deleted.name, deleted.n into @some;
insert into punctual_pending (user_id, name, n)
select user_id, name, sum(n) from @some group by user_id, name having sum(n) <> 0
