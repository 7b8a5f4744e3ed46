-- Tokens: who may do what over the network. Of a secret only its hash is kept.
create table punctual_tokens (
    id         blob    primary key,
    name       text    not null,
    roles      text    not null,
    hash       blob    not null unique,
    session_of blob,
    created_by text    not null,
    created_at integer not null,
    expires_at integer
) strict, without rowid;

-- Requests that have their effect once, however often they are sent.
create table punctual_requests (
    key         text    primary key,
    fingerprint blob    not null,
    at          integer not null,
    seed        integer not null
) strict, without rowid;
create index punctual_requests_at on punctual_requests (at);
