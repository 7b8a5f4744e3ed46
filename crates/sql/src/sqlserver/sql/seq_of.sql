-- The place of a job in the table. Index: the unique one on id.
select seq from punctual_jobs where id = @P1
