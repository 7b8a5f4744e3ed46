-- Ends of a workflow's jobs count no more. In: the time (or null), workflow, changes of the three ends.
insert into punctual_ends_pending (workflow, at, succeeded, dead, cancelled)
values ($2::uuid, {now}, $3::int4, $4::int4, $5::int4)
