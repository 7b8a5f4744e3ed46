-- What another store counted. In: hour, name, queue, measure, bucket, how many. Rows changed: 0 if it is known. Index: primary key.
insert into punctual_rollups (hour, name, queue, measure, bucket, n)
select i.hour, i.name, i.queue, i.measure, i.bucket, i.n
from openjson(@P1) with (
    hour bigint '$[0]', name nvarchar(256) '$[1]', queue nvarchar(256) '$[2]', measure varchar(16) '$[3]', bucket int '$[4]', n bigint '$[5]') i
where not exists (select 1 from punctual_rollups t with (forceseek) where t.hour = i.hour and t.name = i.name collate Latin1_General_BIN2 and t.queue = i.queue collate Latin1_General_BIN2
    and t.measure = i.measure collate Latin1_General_BIN2 and t.bucket = i.bucket)
