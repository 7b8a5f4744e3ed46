-- The place of a job in the table. Index: the unique one on id.
select j.seq, i.place from openjson(@P1) with (id char(36) '$[0]', place int '$[1]') i join punctual_jobs j with (forceseek) on j.id = cast(cast(i.id as uniqueidentifier) as binary(16))
