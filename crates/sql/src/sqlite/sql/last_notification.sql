-- The number of the last message that ever was.
select coalesce(max(seq), 0) from sqlite_sequence where name = 'punctual_notifications'
