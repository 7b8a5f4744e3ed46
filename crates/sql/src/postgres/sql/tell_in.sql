-- An application has stored something in a transaction of its own: tells those who wait, and leaves a note for those who follow.
-- In: the time (or null), the channel, what to say.
with l as (
    insert into punctual_late_commits (written, began, whole)
    select coalesce($1::timestamptz, clock_timestamp()), {now}, pg_current_xact_id()::text::int8 & 4294967295)
select pg_notify($2, w) from unnest($3::text[]) w
