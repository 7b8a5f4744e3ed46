-- A job by its id. In: id, when it is scheduled for. Index: the whole primary key of one partition, then that of what is running.
select {columns_now} from {jobs} j left join punctual_running r on r.id = j.id where j.scheduled_at = $2::timestamptz and j.id = $1::uuid
