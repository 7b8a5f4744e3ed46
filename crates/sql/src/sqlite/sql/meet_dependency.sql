-- A job need not wait for a parent any more. In: parent, child, whether it succeeded. Index: primary key.
update punctual_dependencies set succeeded = ?3 where parent = ?1 and child = ?2
