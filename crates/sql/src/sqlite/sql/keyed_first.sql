-- The first jobs of a key and name, in the order in which they start.
-- In: queue, key, name, how many, from and up to which level. Out: level, run_at, job. Index: a range of the primary key, no sort.
select priority, run_at, job from punctual_keyed where queue = ?1 and key = ?2 and name = ?3 and priority between ?5 and ?6
order by priority desc, run_at, job limit ?4
