-- Notifications: what users are told. A number is never used again, and comes into sight in its turn, so that it can be gone on from.
create table punctual_notifications (
    id         bigint      not null primary key,
    -- Everybody, if nobody in particular.
    user_id    text,
    message    text        not null,
    job_id     uuid,
    created_at timestamptz not null
);
create index punctual_notifications_user on punctual_notifications (user_id, id);

-- One row: the number of the last message. Whoever stores messages holds it until their commit, so that no number is seen before a lesser one.
create table punctual_notifications_last (
    only_one boolean not null primary key default true check (only_one),
    id       bigint  not null
) with (fillfactor = 50);
insert into punctual_notifications_last (id) values (0);
