-- Stores messages. In: the time (or null), users, messages, jobs. Out: the number before theirs, and the time.
-- Locks: the row with the last number, until the commit.
with l as (
    update punctual_notifications_last set id = id + cardinality($3::text[]) returning id - cardinality($3::text[]) as before),
i as (
    insert into punctual_notifications (id, user_id, message, job_id, created_at)
    select l.before + n.place, n.user_id, n.message, n.job_id, coalesce($1::timestamptz, now())
    from l, unnest($2::text[], $3::text[], $4::uuid[]) with ordinality as n (user_id, message, job_id, place))
select before, coalesce($1::timestamptz, now()) from l
