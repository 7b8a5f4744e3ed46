-- Counts what ended or started in an hour.
insert into punctual_rollups (hour, name, queue, measure, bucket, n)
select i.hour, i.name, i.queue, i.measure, i.bucket, i.n
from openjson(@P1) with (
    hour bigint '$[0]', name nvarchar(256) '$[1]', queue nvarchar(256) '$[2]', measure varchar(16) '$[3]', bucket int '$[4]', n bigint '$[5]') i
