-- All tokens, oldest first: their ids begin with their time. There are few.
select id, name, roles, hash, session_of, created_by, created_at, expires_at from punctual_tokens order by id
