-- What another store knew of who waits for whom, unless it is known. In: ids of parent and child, what the child does if it fails, how it ended.
-- Rows changed: 1, or 0 if it is known or one of the two is gone. Index: the unique one on id, twice.
insert into punctual_dependencies (parent, child, policy, succeeded)
select p.seq, c.seq, i.policy, i.succeeded
from openjson(@P1) with (parent_id char(36) '$[0]', child_id char(36) '$[1]', policy varchar(16) '$[2]', succeeded bit '$[3]') i
join punctual_jobs p with (forceseek) on p.id = cast(cast(i.parent_id as uniqueidentifier) as binary(16)) join punctual_jobs c with (forceseek) on c.id = cast(cast(i.child_id as uniqueidentifier) as binary(16))
where not exists (select 1 from punctual_dependencies d with (forceseek) where d.parent = p.seq and d.child = c.seq)
