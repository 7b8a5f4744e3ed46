-- Stores a token. In: its columns.
insert into punctual_tokens (id, name, roles, hash, session_of, created_by, created_at, expires_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
