-- What another store knew of who waits for whom, unless it is known. In: ids of parent and child, what the child does if it fails, how it ended.
-- Rows changed: 1, or 0 if it is known or one of the two is gone. Index: the unique one on id, twice.
insert into punctual_dependencies (parent, child, policy, succeeded)
select p.seq, c.seq, ?3, ?4 from punctual_jobs p, punctual_jobs c where p.id = ?1 and c.id = ?2
on conflict (parent, child) do nothing
