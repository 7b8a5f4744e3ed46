-- Removes a session, or those of a token. In: its id. There are few.
delete from punctual_tokens where session_of = ?1 or id = ?1 and session_of is not null
