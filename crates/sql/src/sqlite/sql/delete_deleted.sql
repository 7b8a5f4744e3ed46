-- A deleted job is purged. Index: the whole primary key.
delete from punctual_deleted where deleted_at = ?1 and job = ?2
