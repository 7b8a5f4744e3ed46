-- One after the other, those who may change the job that has a unique key: it moves with each change, and all others would miss it.
-- In: scopes, keys. In the order of the locks' numbers, so that two of these never wait for each other.
select pg_advisory_xact_lock(hashtext('punctual keys'), k.n) from (
    select distinct hashtext(concat_ws(chr(31), current_schema(), u.scope, u.key)) as n
    from unnest($1::text[], $2::text[]) u (scope, key) order by n) k
