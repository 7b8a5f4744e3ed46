-- Ends a token or session that is valid, and removes a session, or those of a token. In: the time (or null), its id. Out: how many were valid. There are few.
with removed as (
    delete from punctual_tokens where session_of = $2::uuid or id = $2::uuid and session_of is not null
    returning id, expires_at
), ended as (
    update punctual_tokens set expires_at = {now}
    where id = $2::uuid and session_of is null and (expires_at is null or expires_at > {now})
    returning id
)
select (select count(*) from ended) + (select count(*) from removed where id = $2::uuid and (expires_at is null or expires_at > {now}))
