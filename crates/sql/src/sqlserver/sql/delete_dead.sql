-- A dead job is retried or gone. Index: the whole primary key.
delete from punctual_dead where died_at = @P1 and job = @P2
