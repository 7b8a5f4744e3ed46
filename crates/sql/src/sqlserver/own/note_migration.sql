-- A migration was applied. In: version, name, checksum.
insert into punctual_schema (version, name, checksum, applied_at)
values (@P1, @P2, @P3, datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime()))
