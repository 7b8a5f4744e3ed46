-- A job waits for another, or need not any more. In: parent, child, what the child does if it fails, how it ended.
insert into punctual_dependencies (parent, child, policy, succeeded)
select i.parent, i.child, i.policy, i.succeeded
from openjson(@P1) with (parent bigint '$[0]', child bigint '$[1]', policy varchar(16) '$[2]', succeeded bit '$[3]') i
