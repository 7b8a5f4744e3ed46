-- Takes a job from its place among the queued ones of its key. Index: the whole primary key.
delete from punctual_keyed where queue = ?1 and key = ?2 and name = ?3 and priority = ?4 and run_at = ?5 and job = ?6
