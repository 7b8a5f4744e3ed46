-- Counts the jobs of a day that have gone as gone, and forgets what is kept of them elsewhere but for labels, events and logs.
-- Keys are taken in their order, as enqueues do. Reads the whole day.
insert into punctual_counts_new (lane, status, n)
select j.lane, j.status, -count(*) from {jobs} j where {gone} group by j.lane, j.status;
delete from punctual_keys where ctid = any (array(
    select k.ctid from punctual_keys k join {jobs} j on j.unique_key is not null and k.job_id = j.id
    where {gone} order by k.scope collate "C", k.key collate "C" for update of k));
delete from punctual_expiries k using {jobs} j
where j.keep_for_ms is not null and {gone} and k.expires_at = j.finished_at + j.keep_for_ms * interval '1 millisecond' and k.id = j.id;
delete from punctual_deleted d using {jobs} j
where j.status = 'deleted' and {gone} and d.deleted_at = j.updated_at and d.id = j.id;
delete from punctual_ephemeral e using {jobs} j where j.ephemeral and {gone} and e.id = j.id;
delete from punctual_dependencies d using {jobs} j where {gone} and d.parent = j.id;
delete from punctual_dependencies d using {jobs} j where {gone} and d.child = j.id;
delete from punctual_nodes n using {jobs} j where {gone} and n.job_id = j.id;
