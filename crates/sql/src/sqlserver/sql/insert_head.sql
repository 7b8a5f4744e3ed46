-- A key has something to start. In: queue, name, priority, turn, run_at, job, key.
insert into punctual_heads (queue, name, priority, turn, run_at, job, [key]) values (@P1, @P2, @P3, @P4, @P5, @P6, @P7)
