-- Removes all tokens and sessions, unless a token is valid. In: the time (or null). There are few.
delete from punctual_tokens where not exists (
    select from punctual_tokens valid where valid.session_of is null and (valid.expires_at is null or valid.expires_at > {now})
)
