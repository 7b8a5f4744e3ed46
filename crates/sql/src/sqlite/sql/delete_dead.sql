-- A dead job is retried or gone. Index: the whole primary key.
delete from punctual_dead where died_at = ?1 and job = ?2
