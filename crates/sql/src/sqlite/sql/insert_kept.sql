-- A finished job goes at its own time.
insert into punctual_expiries (expires_at, job) values (?1, ?2)
