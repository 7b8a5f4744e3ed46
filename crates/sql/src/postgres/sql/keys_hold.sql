-- Holds unique keys that jobs may have to give back, in the order given, which is the same everywhere. In: scopes, keys.
-- Index: primary key.
select k.key from unnest($1::text[], $2::text[]) u (scope, key)
cross join lateral (select key from punctual_keys k where k.scope = u.scope and k.key = u.key for update) k
