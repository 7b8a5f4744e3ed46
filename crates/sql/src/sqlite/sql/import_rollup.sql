-- What another store counted. In: hour, name, queue, measure, bucket, how many. Rows changed: 0 if it is known. Index: primary key.
insert into punctual_rollups (hour, name, queue, measure, bucket, n) values (?1, ?2, ?3, ?4, ?5, ?6) on conflict do nothing
