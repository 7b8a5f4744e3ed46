-- A worker is gone. Index: primary key.
delete from punctual_workers where id = @P1
