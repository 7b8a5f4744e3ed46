-- What another store knew of who waits for whom, unless it is known. In: ids of parent and child, what the child does if it fails, how it ended.
-- Rows changed: 1, or 0 if it is known or one of the two is gone. Index: the unique one on id, twice.
insert into punctual_dependencies (parent, child, policy, succeeded)
select p.seq, c.seq, @P3, @P4 from punctual_jobs p, punctual_jobs c where p.id = @P1 and c.id = @P2
    and not exists (select 1 from punctual_dependencies d where d.parent = p.seq and d.child = c.seq)
