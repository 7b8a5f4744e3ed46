//! The checks of `punctual doctor` for a PostgreSQL database.

use punctual_core::Diagnostic;
use sqlx::PgConnection;

use super::{core::Core, db::serve};
use crate::ops::diagnostics::{counters_result, diagnostic, histories_result, indexes_result, queue_settings};

/// The oldest supported version of PostgreSQL.
const OLDEST_VERSION: i32 = 130_000;

/// Checks for damage and bad settings.
pub(crate) async fn check(store: &Core) -> sqlx::Result<Vec<Diagnostic>> {
    let mut unit = store.sessions.several().await?;
    let diagnostics = check_within(&mut unit).await;
    unit.ended(diagnostics).await
}

async fn check_within(connection: &mut PgConnection) -> sqlx::Result<Vec<Diagnostic>> {
    // The checks read whole tables, once.
    sqlx::query("select set_config(name, 'on', true) from unnest(array['enable_seqscan', 'enable_hashjoin', 'enable_bitmapscan']) name")
        .execute(&mut *connection)
        .await?;
    Ok(vec![
        version(connection).await?,
        privileges(connection).await?,
        counters(connection).await?,
        indexes(connection).await?,
        histories(connection).await?,
        serve(connection, queue_settings).await?,
        open_transactions(connection).await?,
    ])
}

async fn number(connection: &mut PgConnection, sql: &'static str) -> sqlx::Result<i64> {
    sqlx::query_scalar(sql).persistent(false).fetch_one(connection).await
}

async fn version(connection: &mut PgConnection) -> sqlx::Result<Diagnostic> {
    let found: i32 =
        sqlx::query_scalar("select current_setting('server_version_num')::int4").fetch_one(connection).await?;
    let ok = found >= OLDEST_VERSION;
    let hint = if ok { "" } else { "; Punctual needs 13 or later" };
    Ok(diagnostic("version", ok, format!("PostgreSQL {}.{}{hint}", found / 10_000, found % 10_000)))
}

/// The role must have the privileges that the hot path and maintenance need.
async fn privileges(connection: &mut PgConnection) -> sqlx::Result<Diagnostic> {
    let missing: Vec<String> = sqlx::query_scalar(
        "select c.relname::text from pg_class c
         where c.relnamespace = current_schema()::regnamespace and c.relname like 'punctual\\_%' and c.relkind in ('r', 'p')
           and not (has_table_privilege(c.oid, 'select, insert, update, delete') and pg_has_role(c.relowner, 'usage'))
         order by 1",
    )
    .persistent(false)
    .fetch_all(connection)
    .await?;
    let ok = missing.is_empty();
    let message = if ok {
        "the role has all required privileges".to_owned()
    } else {
        format!("the role does not own {}; see docs/postgresql.md", missing.join(", "))
    };
    Ok(diagnostic("privileges", ok, message))
}

/// The counters must equal the number of rows that they count.
async fn counters(connection: &mut PgConnection) -> sqlx::Result<Diagnostic> {
    let wrong = number(
        connection,
        "with kept as (
             select lane, status, sum(n) as n from (select * from punctual_counts union all select * from punctual_counts_new) c
             group by 1, 2 having sum(n) <> 0),
         counted as (select lane, status, count(*) as n from punctual_jobs_now group by 1, 2),
         kept_users as (
             select user_id, name, sum(n) as n from (select * from punctual_pending union all select * from punctual_pending_new) p
             group by 1, 2 having sum(n) <> 0),
         counted_users as (
             select user_id, name, count(*) as n from punctual_jobs where user_id is not null and finished_at is null group by 1, 2)
         select (select count(*) from ((table kept except table counted) union all (table counted except table kept)) d)
              + (select count(*) from ((table kept_users except table counted_users)
                                       union all (table counted_users except table kept_users)) d)",
    )
    .await?;
    Ok(counters_result(wrong))
}

/// Inconsistencies, each with a query that counts the affected rows.
const INCONSISTENCIES: [(&str, &str); 24] = [
    (
        "jobs wrongly in or missing from punctual_ready",
        "select count(*) from punctual_jobs_now j left join punctual_ready r
         on r.lane = j.lane and r.run_at = j.run_at and r.id = j.id
         where (j.status = 'queued') <> (r.id is not null)",
    ),
    (
        "queued jobs with a wrong concurrency key",
        "select count(*) from punctual_ready r join punctual_jobs j on j.id = r.id join punctual_lanes l on l.lane = r.lane
         where r.limit_key is distinct from j.options::json ->> 'concurrency_key' or l.keyed <> (r.limit_key is not null)",
    ),
    // A queued key must be known to claims: by its head, by a wake-up, or because it is held back until one of its
    // running jobs ends.
    (
        "concurrency keys that no claim would check",
        "select count(*) from (
             select distinct l.queue, r.limit_key as key from punctual_ready r join punctual_lanes l on l.lane = r.lane where r.limit_key is not null) k
         where not exists (select from punctual_limit_heads h where h.queue = k.queue and h.key = k.key)
         and not exists (select from punctual_limit_wakeups m where m.queue = k.queue and m.key = k.key)
         and not exists (select from punctual_running r join punctual_lanes l on l.lane = r.lane where r.limit_key = k.key and l.queue = k.queue)",
    ),
    (
        "limit heads without a queued job",
        "select count(*) from punctual_limit_heads h where not exists (select from punctual_ready r where r.id = h.id and r.lane = h.lane)
         and not exists (select from punctual_limit_wakeups m where m.queue = h.queue and m.key = h.key)",
    ),
    (
        "jobs wrongly in or missing from punctual_due",
        "select count(*) from punctual_jobs_now j left join punctual_due d on d.run_at = j.run_at and d.id = j.id
         where (j.status in ('scheduled', 'retrying')) <> (d.id is not null)",
    ),
    (
        "jobs with a wrong lane",
        "select count(*) from punctual_jobs j left join punctual_lanes l
         on l.lane = j.lane and l.queue = j.queue and l.name = j.name
         and l.priority = j.priority + case when j.crash_count > 0 then 16 else 0 end
         where l.lane is null",
    ),
    (
        "jobs wrongly in or missing from punctual_waiting",
        "select count(*) from punctual_jobs j full join punctual_waiting w on w.id = j.id and w.run_at = j.run_at and w.lane = j.lane
         where (j.status = 'waiting') is distinct from (w.id is not null)",
    ),
    (
        "waiting jobs with a wrong number of parents",
        "select count(*) from punctual_waiting w where w.waiting_on <> (
         select count(*) from punctual_dependencies d where d.child = w.id and d.succeeded is null)",
    ),
    (
        "dependencies without a job, or on a parent that has ended",
        "select count(*) from punctual_dependencies d left join punctual_jobs p on p.id = d.parent left join punctual_jobs c on c.id = d.child
         where p.id is null or c.id is null
         or (d.succeeded is null and c.status = 'waiting' and (not p.flow or p.status in ('succeeded', 'deleted')))",
    ),
    (
        "workflow nodes without a job",
        "select count(*) from punctual_nodes n where not exists (select from punctual_jobs j where j.id = n.job_id)",
    ),
    (
        "rows of punctual_ready with a wrong flow column",
        "select count(*) from punctual_jobs j join punctual_ready r on r.id = j.id where r.flow <> j.flow",
    ),
    (
        "rows of punctual_running with a wrong flow column",
        "select count(*) from punctual_jobs j join punctual_running r on r.id = j.id where r.flow <> j.flow",
    ),
    (
        "rows of punctual_ready without a job",
        "select count(*) from punctual_ready r where not exists (select from punctual_jobs j where j.id = r.id)",
    ),
    (
        "rows of punctual_due without a job",
        "select count(*) from punctual_due d where not exists (select from punctual_jobs j where j.id = d.id)",
    ),
    (
        "rows of punctual_running without a job",
        "select count(*) from punctual_running r where not exists (select from punctual_jobs j where j.id = r.id)",
    ),
    (
        "occupied slots of executions that still run",
        "select count(*) from punctual_occupied_slots s join punctual_running r on r.id = s.job_id and r.run = s.run",
    ),
    (
        "jobs whose status and final event differ",
        "select count(*) from punctual_jobs j left join punctual_events e
         on e.final > 0 and e.status = j.status and e.at = j.finished_at and e.job_id = j.id
         where (j.status in ('succeeded', 'dead', 'cancelled')) <> (e.job_id is not null)",
    ),
    (
        "final events that do not match their job",
        "select count(*) from punctual_events e left join punctual_jobs j on j.id = e.job_id
         where e.final > 0 and (j.status, j.finished_at) is distinct from (e.status, e.at)
         and (j.id is not null or punctual_scheduled_at(e.job_id) >= (
         select coalesce(max(jobs_gone_before), '-infinity') from punctual_dropped_partitions))",
    ),
    (
        "jobs wrongly in or missing from punctual_deleted",
        "select count(*) from punctual_jobs j left join punctual_deleted d
         on d.deleted_at = j.updated_at and d.id = j.id and d.finished_at = j.finished_at
         where (j.status = 'deleted') <> (d.id is not null)",
    ),
    (
        "rows of punctual_deleted without a job",
        "select count(*) from punctual_deleted d where not exists (
         select from punctual_jobs j where j.id = d.id and j.updated_at = d.deleted_at)",
    ),
    (
        "rows of punctual_expiries that do not match their job",
        "select count(*) from punctual_expiries k left join punctual_jobs j on j.id = k.id
         where j.finished_at + j.keep_for_ms * interval '1 millisecond' is distinct from k.expires_at",
    ),
    (
        "unique keys that do not match their job",
        "select count(*) from punctual_keys k left join punctual_jobs j on j.id = k.job_id
         where j.unique_key is distinct from k.key",
    ),
    (
        "labels without a job",
        "select count(*) from punctual_labels l where not exists (select from punctual_jobs j where j.id = l.id)",
    ),
    (
        "rows of punctual_ephemeral without an ephemeral job",
        "select count(*) from punctual_ephemeral e left join punctual_jobs j on j.id = e.id where j.ephemeral is not true",
    ),
];

/// Every unfinished job must have a row where claims look for it, and every row about a job must have its job.
async fn indexes(connection: &mut PgConnection) -> sqlx::Result<Diagnostic> {
    let (mut total, mut details) = (0, Vec::new());
    for (what, sql) in INCONSISTENCIES {
        let wrong = number(connection, sql).await?;
        if wrong > 0 {
            total += wrong;
            details.push(format!("{what}: {wrong}"));
        }
    }
    Ok(indexes_result(total, &details))
}

/// Every job must have as many events as its row says.
async fn histories(connection: &mut PgConnection) -> sqlx::Result<Diagnostic> {
    let broken = number(
        connection,
        "with stored as (
             select job_id, count(*) as n, max(n) as last from (
                 select job_id, n from punctual_events
                 union all
                 select job_id, n - 1 from punctual_events where started_at is not null
                 union all
                 select id, events from punctual_running
                 union all
                 select id, 1 from punctual_jobs j where not exists (
                     select from punctual_events e where e.at = j.created_at and e.job_id = j.id and e.n = 1)) e
             group by job_id)
         select (select count(*) from punctual_jobs_now j left join stored t on t.job_id = j.id
                 where t.n is distinct from j.events or t.last is distinct from j.events)
              + (select count(*) from stored t where not exists (select from punctual_jobs j where j.id = t.job_id)
                     -- What went with its day leaves its events behind for a while.
                     and punctual_scheduled_at(t.job_id) >= (
                         select coalesce(max(jobs_gone_before), '-infinity') from punctual_dropped_partitions))",
    )
    .await?;
    Ok(histories_result(broken))
}

/// A transaction that stays open prevents VACUUM from removing newer dead rows.
async fn open_transactions(connection: &mut PgConnection) -> sqlx::Result<Diagnostic> {
    const LONG_SECONDS: i64 = 300;
    let oldest = number(
        connection,
        "select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::int8 from pg_stat_activity
         where pid <> pg_backend_pid() and backend_type = 'client backend' and xact_start is not null",
    )
    .await?;
    let ok = oldest < LONG_SECONDS;
    let hint = if ok { "" } else { "; it prevents vacuum from removing dead rows, end it" };
    Ok(diagnostic("transactions", ok, format!("the oldest is {oldest} s old{hint}")))
}
