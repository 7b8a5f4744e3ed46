-- When a job may start. In: its place. Index: primary key.
select j.run_at, i.place from openjson(@P1) with (seq bigint '$[0]', place int '$[1]') i join punctual_jobs j with (forceseek) on j.seq = i.seq
