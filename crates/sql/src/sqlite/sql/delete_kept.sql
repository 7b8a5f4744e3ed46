-- A finished job is gone, or is not finished any more. Index: the whole primary key.
delete from punctual_expiries where expires_at = ?1 and job = ?2
