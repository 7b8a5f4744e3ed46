-- A deleted job is purged. Index: the whole primary key.
delete from punctual_deleted where deleted_at = @P1 and job = @P2
