-- A user, correlation id or tag of a job.
insert into punctual_labels (kind, value, id, job) select @P1, @P2, @P3, @P4
where not exists (select 1 from punctual_labels where kind = @P1 and value = @P2 and id = @P3)
