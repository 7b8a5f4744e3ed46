,
v as (
    insert into punctual_rollups_new (hour, lane, measure, bucket, n)
    select date_trunc('hour', {now}, 'UTC'), lane, 'lateness',
        width_bucket(round(greatest(0, date_part('epoch', started_at - run_at)) * 1000000), {buckets}), count(*)
    from l group by 1, 2, 4)
