-- Makes one row of several of the same queue, name and status; so many at once that it takes an instant. Locks: `punctual` and `punctual sums`.
declare @some table (queue nvarchar(256) collate Latin1_General_BIN2, name nvarchar(256) collate Latin1_General_BIN2,
    status varchar(16) collate Latin1_General_BIN2, n bigint);
delete top (20000) from punctual_counts with (readcommittedlock, readpast, rowlock)
output deleted.queue, deleted.name, deleted.status, deleted.n into @some
where exists (select 1 from punctual_counts o with (readcommittedlock, readpast, rowlock)
    where o.queue = punctual_counts.queue and o.name = punctual_counts.name and o.status = punctual_counts.status and o.id <> punctual_counts.id);
insert into punctual_counts (queue, name, status, n)
select queue, name, status, sum(n) from @some group by queue, name, status having sum(n) <> 0
