-- A user, correlation id or tag of a job.
insert into punctual_labels (kind, value, id, job) values (?1, ?2, ?3, ?4) on conflict do nothing
