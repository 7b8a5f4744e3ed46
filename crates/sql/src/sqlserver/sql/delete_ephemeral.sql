-- An ephemeral job is gone. Index: primary key.
delete from punctual_ephemeral where job = @P1
