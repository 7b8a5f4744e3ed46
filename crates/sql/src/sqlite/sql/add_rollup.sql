-- Counts what ended or started in an hour.
insert into punctual_rollups (hour, name, queue, measure, bucket, n) values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict do update set n = n + excluded.n
