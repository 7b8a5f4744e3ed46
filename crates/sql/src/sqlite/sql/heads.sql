-- The keys that have something to start of a queue and name, in the order of their first jobs.
-- In: queue, name, how many, from and up to which level. Out: key. Index: a range of the primary key, no sort.
select key from punctual_limit_heads where queue = ?1 and name = ?2 and priority between ?4 and ?5
order by priority desc, turn, run_at, job limit ?3
