-- A user, correlation id or tag of a job that goes. Index: the whole primary key.
delete from punctual_labels where kind = ?1 and value = ?2 and id = ?3
