-- Jobs need not wait for parents any more. In: parents, children, whether each parent succeeded. Index: primary key.
update punctual_dependencies d set succeeded = u.succeeded
from unnest($1::uuid[], $2::uuid[], $3::bool[]) u (parent, child, succeeded) where d.parent = u.parent and d.child = u.child
