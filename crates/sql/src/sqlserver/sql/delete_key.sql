-- A job gives its unique key back. Index: primary key.
delete from punctual_keys where scope = @P1 and hash = hashbytes('sha2_256', @P2) and job = @P3
