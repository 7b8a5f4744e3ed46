-- What was counted in some hours. In: first hour, end. Index: a range of the primary key.
select name, queue, measure, bucket, sum(n) from punctual_rollups
where hour >= ?1 and hour < ?2 group by name, queue, measure, bucket
