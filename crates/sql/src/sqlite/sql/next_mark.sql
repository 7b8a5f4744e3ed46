-- When the next key is to be looked at, after ?1. Index: one step in the primary key.
select min(at) from punctual_marks where at > ?1
