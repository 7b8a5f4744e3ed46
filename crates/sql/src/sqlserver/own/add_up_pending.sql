-- Makes one row of several of the same user and name; so many at once that it takes an instant. Locks: `punctual` and `punctual sums`.
declare @some table (user_id nvarchar(512) collate Latin1_General_BIN2, name nvarchar(256) collate Latin1_General_BIN2, n bigint);
delete top (20000) from punctual_pending with (readcommittedlock, readpast, rowlock)
output deleted.user_id, deleted.name, deleted.n into @some
where exists (select 1 from punctual_pending o with (readcommittedlock, readpast, rowlock)
    where o.user_id = punctual_pending.user_id and o.name = punctual_pending.name and o.id <> punctual_pending.id);
insert into punctual_pending (user_id, name, n)
select user_id, name, sum(n) from @some group by user_id, name having sum(n) <> 0
