-- Jobs wait for others, or need not any more. In: parents, children, what each does if its parent fails, how that ended.
insert into punctual_dependencies (parent, child, policy, succeeded)
select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bool[])
