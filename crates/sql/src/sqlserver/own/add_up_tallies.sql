-- Makes one row of those of an hour, name, queue, measure and bucket. So many at once that it takes an instant. Locks: `punctual` and `punctual sums`.
declare @some table (hour bigint, name nvarchar(256) collate Latin1_General_BIN2, queue nvarchar(256) collate Latin1_General_BIN2,
    measure varchar(16) collate Latin1_General_BIN2, bucket int, n bigint);
delete top (20000) from punctual_tallies with (readcommittedlock, readpast)
output deleted.hour, deleted.name, deleted.queue, deleted.measure, deleted.bucket, deleted.n into @some;
insert into punctual_tallies (hour, name, queue, measure, bucket, n)
select hour, name, queue, measure, bucket, sum(n) from @some group by hour, name, queue, measure, bucket having sum(n) <> 0
