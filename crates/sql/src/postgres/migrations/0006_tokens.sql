-- Tokens: who may do what over the network. Of a secret only its hash is kept.
create table punctual_tokens (
    id         uuid        not null primary key,
    name       text        not null,
    roles      text[]      not null,
    hash       bytea       not null unique,
    session_of uuid,
    created_by text        not null,
    created_at timestamptz not null,
    expires_at timestamptz
);

-- Requests that have their effect once, however often they are sent.
create table punctual_requests (
    key         text        not null primary key,
    fingerprint bytea       not null,
    at          timestamptz not null,
    seed        bigint      not null
);
create index punctual_requests_at on punctual_requests (at);
