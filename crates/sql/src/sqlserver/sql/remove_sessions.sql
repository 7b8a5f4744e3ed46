-- Removes a session, or those of a token. In: its id. There are few.
delete from punctual_tokens where session_of = @P1 or id = @P1 and session_of is not null
