-- Lets a job wait for its time.
insert into punctual_due (run_at, job) values (@P1, @P2)
