-- A worker is gone. Index: primary key.
delete from punctual_workers where id = $1::uuid
