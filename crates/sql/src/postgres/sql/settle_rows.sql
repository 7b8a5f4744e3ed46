-- The rows of settle.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[], $6::uuid[], $7::bool[], $8::text[], $9::text[], $10::int8[],
        $11::bool[], $12::text[], $13::text[], $14::text[])
        as s (id, scheduled_at, run, result, worker_id, only_if_expired, attempt_status, status, delay, gives_back, first, second, error)
