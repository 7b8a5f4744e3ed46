-- Forgets a user who has none left. Index: primary key.
delete from punctual_pending where user_id = @P1 and name = @P2 and n = 0
