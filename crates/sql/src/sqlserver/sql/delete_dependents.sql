-- Forgets who waited for a job. In: job. Index: primary key.
delete from punctual_dependencies where parent = @P1
