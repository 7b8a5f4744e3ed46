-- A job need not wait for a parent any more. In: parent, child, whether it succeeded. Index: primary key.
update punctual_dependencies set succeeded = @P3 where parent = @P1 and child = @P2
