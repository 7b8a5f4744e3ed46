-- Makes one row of several of the same hour, name, queue, measure and bucket; so many at once that it takes an instant. In: from which hour on, as those of
-- a year need no second look. Index: a range of the primary key. Locks: `punctual` and `punctual sums`.
declare @some table (hour bigint, name nvarchar(256) collate Latin1_General_BIN2, queue nvarchar(256) collate Latin1_General_BIN2,
    measure varchar(16) collate Latin1_General_BIN2, bucket int, n bigint);
delete top (20000) from punctual_rollups with (readcommittedlock, readpast, rowlock)
output deleted.hour, deleted.name, deleted.queue, deleted.measure, deleted.bucket, deleted.n into @some
where hour >= @P1 and exists (select 1 from punctual_rollups o with (readcommittedlock, readpast, rowlock)
    where o.hour = punctual_rollups.hour and o.name = punctual_rollups.name and o.queue = punctual_rollups.queue
        and o.measure = punctual_rollups.measure and o.bucket = punctual_rollups.bucket and o.id <> punctual_rollups.id);
insert into punctual_rollups (hour, name, queue, measure, bucket, n)
select hour, name, queue, measure, bucket, sum(n) from @some group by hour, name, queue, measure, bucket having sum(n) <> 0
