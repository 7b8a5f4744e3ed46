-- A job that is dropped at restart.
insert into punctual_ephemeral (job) values (@P1)
