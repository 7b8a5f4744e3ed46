-- Forgets whom a job waited for. In: job. Index: punctual_dependencies_child.
delete from punctual_dependencies where child = @P1
