-- Stores a token. In: its columns.
insert into punctual_tokens (id, name, roles, hash, session_of, created_by, created_at, expires_at) values (@P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8)
