-- Removes all tokens and sessions, unless a token is valid. In: now. There are few.
delete from punctual_tokens where not exists (
    select 1 from punctual_tokens valid where valid.session_of is null and (valid.expires_at is null or valid.expires_at > @P1)
)
