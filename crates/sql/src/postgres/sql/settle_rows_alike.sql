-- The rows of settle.sql where all ended alike, in the same worker.
unnest($2::uuid[], $3::timestamptz[], $4::int4[], $5::text[]) as s (id, scheduled_at, run, result)
