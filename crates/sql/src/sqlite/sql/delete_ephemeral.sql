-- An ephemeral job is gone. Index: rowid.
delete from punctual_ephemeral where job = ?1
