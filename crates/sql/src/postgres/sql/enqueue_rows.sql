-- The rows of enqueue.sql: one array a column.
unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[], $10::int2[],
        $11::int4[], $12::int8[], $13::text[], $14::text[], $15::uuid[], $16::int8[], $17::bool[], $18::int4[])
        as u (id, scheduled_at, payload, options, unique_key, delay_us, name, queue, priority, max_attempts, timeout_ms, user_id,
              correlation_id, workflow_id, keep_for_ms, ephemeral, lane)
