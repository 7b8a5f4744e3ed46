-- The job that holds a unique key. Index: both primary keys.
select j.id from punctual_keys k join punctual_jobs j on j.seq = k.job where k.scope = ?1 and k.key = ?2
