-- A job that is dropped at restart.
insert into punctual_ephemeral (job) values (?1)
