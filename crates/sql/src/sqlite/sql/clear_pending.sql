-- Forgets a user who has none left. Index: primary key.
delete from punctual_pending where user_id = ?1 and name = ?2 and n = 0
