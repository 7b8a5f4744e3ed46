-- Takes a job out of its lane. Rows changed: 1 if it was there. Index: the whole primary key.
delete t from punctual_ready t with (forceseek, rowlock) join openjson(@P1) with (
    queue nvarchar(256) '$[0]', name nvarchar(256) '$[1]', priority tinyint '$[2]', run_at bigint '$[3]', job bigint '$[4]') i
on t.queue = i.queue collate Latin1_General_BIN2 and t.name = i.name collate Latin1_General_BIN2 and t.priority = i.priority and t.run_at = i.run_at and t.job = i.job
