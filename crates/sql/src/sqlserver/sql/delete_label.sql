-- A user, correlation id or tag of a job that goes. Index: the whole primary key.
delete from punctual_labels where kind = @P1 and value = @P2 and id = @P3
