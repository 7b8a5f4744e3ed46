-- A job has died.
insert into punctual_dead (died_at, job, name) values (@P1, @P2, @P3)
