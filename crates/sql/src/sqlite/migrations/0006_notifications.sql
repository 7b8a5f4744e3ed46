-- Notifications: what users are told. A number is never used again, so that it can be gone on from.
create table punctual_notifications (
    id         integer primary key autoincrement,
    -- Everybody, if nobody in particular.
    user_id    text,
    message    text    not null,
    job_id     blob,
    created_at integer not null
) strict;
create index punctual_notifications_user on punctual_notifications (user_id, id);
