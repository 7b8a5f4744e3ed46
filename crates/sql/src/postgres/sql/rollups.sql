-- What was counted in some hours. In: first hour, end. Index: a range of the primary key; and a small table whole.
select l.name, l.queue, t.measure, t.bucket, sum(t.n)::int8 from (
    select * from punctual_rollups where hour >= $1::timestamptz and hour < $2::timestamptz
    union all
    select * from punctual_rollups_new where hour >= $1::timestamptz and hour < $2::timestamptz) t
join punctual_lanes l on l.lane = t.lane
group by l.name, l.queue, t.measure, t.bucket
