-- The places that claim.sql takes, if there is only one lane.
c as materialized (
    select r.ctid as place from punctual_ready r
    where r.lane = ($2::int4[])[1] and (r.run_at, r.id) >= (($3::timestamptz[])[1], ($4::uuid[])[1])
        and {queues_revision} = $9::int8
    order by r.run_at, r.id limit $5::int8 for update skip locked)
