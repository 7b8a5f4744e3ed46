-- Makes one row of those of a queue, name and status. So many at once that it takes an instant. Locks: `punctual` and `punctual sums`.
declare @some table (queue nvarchar(256) collate Latin1_General_BIN2, name nvarchar(256) collate Latin1_General_BIN2,
    status varchar(16) collate Latin1_General_BIN2, n bigint);
delete top (20000) from punctual_counts with (readcommittedlock, readpast) output deleted.queue, deleted.name, deleted.status, deleted.n into @some;
insert into punctual_counts (queue, name, status, n)
select queue, name, status, sum(n) from @some group by queue, name, status having sum(n) <> 0
