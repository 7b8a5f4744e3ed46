-- The rows of enqueue.sql where most columns are the same for all: to unnest an array costs as much as to store a column.
(select u.id, u.scheduled_at, u.payload, u.options, u.unique_key, $7::int8 as delay_us, $8::text as name, $9::text as queue,
        $10::int2 as priority, $11::int4 as max_attempts, $12::int8 as timeout_ms, $13::text as user_id, $14::text as correlation_id,
        $15::uuid as workflow_id, $16::int8 as keep_for_ms, $17::bool as ephemeral, $18::int4 as lane
     from unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]) as u (id, scheduled_at, payload, options, unique_key)) u
