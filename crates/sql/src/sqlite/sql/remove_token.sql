-- Removes a token and its sessions. In: its id. There are few.
delete from punctual_tokens where id = ?1 or session_of = ?1
