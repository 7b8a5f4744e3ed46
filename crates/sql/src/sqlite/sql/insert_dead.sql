-- A job has died.
insert into punctual_dead (died_at, job, name) values (?1, ?2, ?3)
