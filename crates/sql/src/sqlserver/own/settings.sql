-- What a connection begins with: what indexes with a condition need, that changed rows are counted, and that a failed statement ends its transaction.
set ansi_nulls, ansi_padding, ansi_warnings, arithabort, concat_null_yields_null, quoted_identifier on;
set numeric_roundabort off;
set nocount off;
set xact_abort on;
set transaction isolation level read committed;
set lock_timeout 30000
