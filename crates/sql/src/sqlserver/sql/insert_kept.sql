-- A finished job goes at its own time.
insert into punctual_kept (expires_at, job) values (@P1, @P2)
