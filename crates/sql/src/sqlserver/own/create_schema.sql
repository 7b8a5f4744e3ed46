-- Where the migrations are noted that were applied.
if object_id('punctual_schema') is null create table punctual_schema (
    version    int           not null primary key,
    name       nvarchar(256) not null,
    checksum   varchar(64)   not null,
    applied_at bigint        not null
)
