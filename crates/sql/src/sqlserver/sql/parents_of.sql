-- Whom a job waits for, or waited for. In: job. Index: punctual_dependencies_child, primary key.
select p.id from punctual_dependencies d join punctual_jobs p on p.seq = d.parent where d.child = @P1
