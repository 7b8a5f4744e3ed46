-- Schedules as they are from now on: new ones if there is none of the name, others if nobody has changed them meanwhile.
-- In: one array a column, then which are new. Out: the names that were stored. Index: primary key.
with x as materialized (
    select * from unnest($1::text[], $2::uuid[], $3::text[], $4::bool[], $5::text[], $6::int8[], $7::timestamptz[], $8::timestamptz[],
        $9::uuid[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::bool[])
        as x (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at, updated_at,
              updated_by, is_new)),
-- In the order of their names, so that two that save the same ones never wait for each other.
h as materialized (
    select x.* from punctual_schedules s join x on s.name = x.name and s.id = x.id and s.revision = x.revision and not x.is_new
    order by s.name for update of s),
u as (
    update punctual_schedules s set definition = h.definition::json, enabled = h.enabled, problem = h.problem,
        revision = h.revision + 1, last_run_at = h.last_run_at, next_run_at = h.next_run_at, last_job = h.last_job,
        created_at = h.created_at, updated_at = h.updated_at, updated_by = h.updated_by
    from h where s.name = h.name returning s.name),
i as (
    insert into punctual_schedules (name, id, definition, enabled, problem, revision, last_run_at, next_run_at, last_job, created_at,
        updated_at, updated_by)
    select name, id, definition::json, enabled, problem, revision + 1, last_run_at, next_run_at, last_job, created_at, updated_at,
        updated_by
    from x where is_new order by name on conflict (name) do nothing returning name)
select name from u union all select name from i
