-- Removes sessions and tokens that have expired, but for the last token that was made: it shows that the store is closed. In: now. There are few.
delete from punctual_tokens where expires_at <= ?1 and (
    session_of is not null or id <> (select t.id from punctual_tokens t where t.session_of is null order by t.id desc limit 1)
)
