-- A job gives its unique key back. Index: primary key.
delete from punctual_keys where scope = @P1 and [key] = @P2 and job = @P3
