-- Takes a job out of its lane. Rows changed: 1 if it was there. Index: the whole primary key.
delete from punctual_ready where queue = ?1 and name = ?2 and priority = ?3 and run_at = ?4 and job = ?5
