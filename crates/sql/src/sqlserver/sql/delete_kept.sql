-- A finished job is gone, or is not finished any more. Index: the whole primary key.
delete from punctual_kept where expires_at = @P1 and job = @P2
