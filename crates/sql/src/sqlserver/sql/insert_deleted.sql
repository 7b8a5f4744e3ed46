-- A job is deleted.
insert into punctual_deleted (deleted_at, job) values (@P1, @P2)
