-- A key has something to start. In: queue, name, priority, turn, run_at, job, key.
insert into punctual_limit_heads (queue, name, priority, turn, run_at, job, key) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
