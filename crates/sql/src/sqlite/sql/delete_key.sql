-- A job gives its unique key back. Index: primary key.
delete from punctual_keys where scope = ?1 and key = ?2 and job = ?3
