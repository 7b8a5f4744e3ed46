-- What a job returned. In: id. Index: the unique one on id.
select result from punctual_jobs where id = @P1
