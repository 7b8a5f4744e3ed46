//! Retention of whole days.
//!
//! Removing the jobs of a day one by one costs as much as running them. The jobs of a large day are therefore kept
//! until most of them have passed their retention period, as finished and then as deleted. The day's partition is then
//! replaced with a copy of the remaining jobs; afterwards the partitions of events and logs whose jobs were removed are
//! replaced likewise.
//!
//! The remaining rows are copied while operators may change old jobs. If they did so meanwhile, the copy is discarded
//! and made again, and the second time they wait for it.

use std::time::Duration;

use punctual_core::{JobId, RetentionPolicy, Timestamp};
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::{
    core::Core,
    old_partitions::{is_old, is_undisturbed, keep_unchanged, last_change},
    partition_creation,
    partition_replacement::{copy, detach, drop_detached, exchange, lock_partitions},
    partitions::{self, Day, Table},
    session::Unit,
    statements as sql,
    value::{At, Uuid, job_id},
};

const DAY: Duration = Duration::from_secs(86_400);
/// How long a day of jobs that was checked and left unchanged is not checked again.
const JOBS_CHECK_PERIOD: Duration = DAY;
/// How long a day of events or logs is not checked again: few of their jobs are of a later day.
const HISTORIES_CHECK_PERIOD: Duration = Duration::from_secs(7 * 86_400);

/// The days whose finished jobs are not removed one by one, oldest first.
pub(crate) async fn whole(
    store: &Core,
    connection: &mut PgConnection,
    keep: RetentionPolicy,
) -> sqlx::Result<Vec<Day>> {
    // A whole day is too coarse for retention periods of less than a day.
    if shortest(keep) < DAY {
        return Ok(Vec::new());
    }
    // A day that was already checked was replaced, or too many of its jobs remain for that.
    let checked: Vec<String> =
        sqlx::query_scalar("select partition from punctual_dropped_partitions").fetch_all(&mut *connection).await?;
    let mut days = of_size(connection, partitions::JOBS, store.options.whole_day_min_bytes).await?;
    days.retain(|day| !checked.contains(&partitions::JOBS.partition(*day)));
    Ok(days)
}

fn shortest(keep: RetentionPolicy) -> Duration {
    keep.succeeded.min(keep.dead).min(keep.cancelled)
}

/// The days of a table with at least `min_bytes`, oldest first.
async fn of_size(connection: &mut PgConnection, table: Table, min_bytes: u64) -> sqlx::Result<Vec<Day>> {
    let names: Vec<String> = sqlx::query_scalar(
        "select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = to_regclass($1) and pg_relation_size(c.oid) >= $2::int8",
    )
    .bind(table.name)
    .bind(i64::try_from(min_bytes).unwrap_or(i64::MAX))
    .fetch_all(connection)
    .await?;
    let mut days: Vec<Day> = names.iter().filter_map(|name| table.day_of(name)).collect();
    days.sort_unstable();
    Ok(days)
}

/// Replaces old days with their remaining rows; returns the number of removed jobs.
pub(crate) async fn drop_days(store: &Core, keep: RetentionPolicy, deleted: Duration) -> sqlx::Result<usize> {
    drop_detached(store).await?;
    let mut gone = 0;
    if shortest(keep) >= DAY {
        // One more day, for jobs that ended on the day after.
        let over = store.clock_now().before(shortest(keep)).before(deleted).before(DAY);
        for day in
            due(store, partitions::JOBS, JOBS_CHECK_PERIOD).await?.into_iter().filter(|day| day.plus(1).start() <= over)
        {
            for table in [partitions::JOBS, partitions::LABELS] {
                partition_creation::prove_absence(store, table, day).await?;
            }
            let periods = Periods { keep, deleted };
            gone += match exchange_jobs(store, day, periods, Others::GoOn).await? {
                Replacement::Disturbed => exchange_jobs(store, day, periods, Others::Wait).await?.gone(),
                done => done.gone(),
            };
        }
    }
    for table in [partitions::EVENTS, partitions::LOGS] {
        for day in due(store, table, HISTORIES_CHECK_PERIOD).await? {
            partition_creation::prove_absence(store, table, day).await?;
            if exchange_histories(store, table, day, Others::GoOn).await? == Replacement::Disturbed {
                exchange_histories(store, table, day, Others::Wait).await?;
            }
        }
    }
    partition_creation::drop_constraints(store, Day::of(store.clock_now())).await?;
    for table in partitions::TABLES {
        drop_empty(store, table).await?;
    }
    Ok(gone)
}

/// The old days of a table that were not checked recently: for jobs the large ones, for other tables all, since rows of
/// removed jobs slow down lists.
async fn due(store: &Core, table: Table, period: Duration) -> sqlx::Result<Vec<Day>> {
    let now = store.clock_now();
    let min_bytes = if table == partitions::JOBS { store.options.whole_day_min_bytes } else { 0 };
    let mut unit = store.sessions.single().await?;
    let recent: Vec<String> =
        sqlx::query_scalar("select partition from punctual_dropped_partitions where looked_at > $1::timestamptz")
            .bind(At(now.before(period)))
            .fetch_all(&mut *unit)
            .await?;
    let mut days = of_size(&mut unit, table, min_bytes).await?;
    unit.done().await?;
    days.retain(|day| is_old(day.plus(1), now) && !recent.contains(&table.partition(*day)));
    Ok(days)
}

/// What transactions that change old days do while a day is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    GoOn,
    Wait,
}

/// The result of replacing a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replacement {
    /// The number of removed jobs.
    Gone(usize),
    /// Another transaction changed old days meanwhile.
    Disturbed,
}

impl Replacement {
    const NOTHING: Self = Self::Gone(0);

    const fn gone(self) -> usize {
        match self {
            Self::Gone(jobs) => jobs,
            Self::Disturbed => 0,
        }
    }
}

/// A day of a table that may be replaced.
#[derive(Clone, Copy)]
struct OldDay {
    table: Table,
    day: Day,
    /// How long the day is not replaced after it was checked.
    check_period: Duration,
}

/// Begins the transaction that replaces a day, and returns it with the number of the last change to old days that it
/// sees; `None` if another process is replacing days, or has checked the day meanwhile.
async fn begin_alone(store: &Core, old: OldDay, others: Others) -> sqlx::Result<Option<(Unit, i64)>> {
    // Transactions that drew this number or a lower one have ended, so a transaction that begins later sees their
    // changes.
    let mut before = store.sessions.several().await?;
    let change = settled_change(&mut before).await;
    let Some(change) = before.ended(change).await? else { return Ok(None) };
    let mut unit = store.sessions.several().await?;
    let change = may_replace(store, &mut unit, old, (others, change)).await;
    match change {
        Ok(Some(change)) => Ok(Some((unit, change))),
        change => unit.ended(change.map(|_| None)).await,
    }
}

/// The number of the last change to old days, after which none is in progress; `None` if some always are.
async fn settled_change(connection: &mut PgConnection) -> sqlx::Result<Option<i64>> {
    if keep_unchanged(connection).await? { last_change(connection).await.map(Some) } else { Ok(None) }
}

/// Whether this transaction may replace a day: the number of the last change to old days that it sees.
async fn may_replace(
    store: &Core,
    connection: &mut PgConnection,
    old: OldDay,
    (others, change): (Others, i64),
) -> sqlx::Result<Option<i64>> {
    let alone = "select pg_try_advisory_xact_lock(hashtext('punctual retention'), hashtext(current_schema()))";
    let alone: bool = sqlx::query_scalar(alone).fetch_one(&mut *connection).await?;
    // Whole tables are read here, without a timeout.
    let settings = "select set_config(name, value, true)
         from (values ('enable_seqscan', 'on'), ('enable_hashjoin', 'on'), ('statement_timeout', '0')) s (name, value)";
    sqlx::query(settings).execute(&mut *connection).await?;
    let due: bool = sqlx::query_scalar(
        "select to_regclass($1) is not null and not exists (
             select from punctual_dropped_partitions where partition = $1 and looked_at > $2::timestamptz)",
    )
    .bind(old.table.partition(old.day))
    .bind(At(store.clock_now().before(old.check_period)))
    .fetch_one(&mut *connection)
    .await?;
    match others {
        _ if !alone || !due => Ok(None),
        Others::Wait => settled_change(connection).await,
        Others::GoOn => Ok(Some(change)),
    }
}

/// What a transaction that may replace a day has done.
enum Exchange {
    /// The day was replaced: the numbers of rows that were removed, and that are left.
    Replaced { gone: i64, left: u64 },
    /// The smaller part was to be removed, so the day was only checked.
    Checked,
    /// Nothing was to be removed.
    Unchecked,
    /// Another transaction changed old days meanwhile.
    Disturbed,
    /// The partitions could not be locked.
    Busy,
}

impl Exchange {
    /// Ends the transaction.
    async fn ended(exchange: sqlx::Result<Self>, unit: Unit) -> sqlx::Result<Self> {
        match exchange {
            // The remaining rows were copied in vain.
            Ok(Self::Disturbed | Self::Busy) => {
                unit.undone().await;
                exchange
            }
            exchange => unit.ended(exchange).await,
        }
    }
}

/// How long jobs are kept: as finished, and then as deleted.
#[derive(Clone, Copy)]
struct Periods {
    keep: RetentionPolicy,
    deleted: Duration,
}

/// Replaces a day of jobs with those whose retention periods are not over, if most of them are.
async fn exchange_jobs(store: &Core, day: Day, periods: Periods, others: Others) -> sqlx::Result<Replacement> {
    let old = OldDay { table: partitions::JOBS, day, check_period: JOBS_CHECK_PERIOD };
    let Some((mut unit, change)) = begin_alone(store, old, others).await? else { return Ok(Replacement::NOTHING) };
    let exchanged = exchange_jobs_within(store, &mut unit, (day, change), periods).await;
    match Exchange::ended(exchanged, unit).await? {
        Exchange::Replaced { gone, left } => {
            tracing::info!(partition = partitions::JOBS.partition(day), gone, left, "jobs of a day have gone");
            drop_detached(store).await?;
            Ok(Replacement::Gone(gone as usize))
        }
        Exchange::Disturbed => Ok(Replacement::Disturbed),
        Exchange::Checked | Exchange::Unchecked | Exchange::Busy => Ok(Replacement::NOTHING),
    }
}

async fn exchange_jobs_within(
    store: &Core,
    connection: &mut PgConnection,
    (day, change): (Day, i64),
    periods: Periods,
) -> sqlx::Result<Exchange> {
    let now = store.sessions.now(connection).await?;
    let (jobs, labels) = (partitions::JOBS.partition(day), partitions::LABELS.partition(day));
    let gone = is_gone(now, periods.keep, periods.deleted);
    let leaving = leaving(connection, &format!("{jobs} j"), &gone).await?;
    let Some(leaving) = leaving else {
        record_check(connection, &jobs, now, None).await?;
        return Ok(Exchange::Checked);
    };
    // Unfinished jobs may change meanwhile; they are copied later, under the exclusive lock.
    let live = sqlx::query_scalar(AssertSqlSafe(format!("select id from {jobs} where finished_at is null")));
    let live: Vec<Uuid> = live.fetch_all(&mut *connection).await?;
    let kept = format!("select j.* from {jobs} j where finished_at is not null and not ({gone})");
    let mut left = copy(connection, partitions::JOBS, day, &kept).await?;
    let kept =
        format!("select l.* from {labels} l where exists (select from {jobs} j where j.id = l.id and not ({gone}))");
    let labelled = partitions::LABELS.has(connection, day).await?;
    let labels_left = if labelled { copy(connection, partitions::LABELS, day, &kept).await? } else { 0 };
    let tables = if labelled { vec![partitions::JOBS, partitions::LABELS] } else { vec![partitions::JOBS] };
    let forget = sql::FORGET_DROPPED_PARTITION.replace("{jobs}", &jobs).replace("{gone}", &gone);
    sqlx::raw_sql(AssertSqlSafe(forget)).execute(&mut *connection).await?;
    if !is_undisturbed(connection, change).await? {
        return Ok(Exchange::Disturbed);
    }
    if !lock_partitions(connection, &tables, day).await? {
        return Ok(Exchange::Busy);
    }
    let add = format!(
        "insert into {jobs}_left select j.* from unnest($1::uuid[], $2::timestamptz[]) u (id, scheduled_at)
         cross join lateral (select * from {jobs} j where j.scheduled_at = u.scheduled_at and j.id = u.id) j
         on conflict do nothing"
    );
    let times: Vec<At> = live.iter().map(|id| At(job_id(*id).timestamp())).collect();
    left += sqlx::query(AssertSqlSafe(add)).bind(live).bind(times).execute(&mut *connection).await?.rows_affected();
    exchange(connection, partitions::JOBS, day, left > 0).await?;
    if labelled {
        exchange(connection, partitions::LABELS, day, labels_left > 0).await?;
    }
    record_check(connection, &jobs, now, Some(day.plus(1).start())).await?;
    Ok(Exchange::Replaced { gone: leaving, left })
}

/// Replaces a day of events or logs with the rows whose jobs still exist, if most of the rows belong to removed jobs.
async fn exchange_histories(store: &Core, table: Table, day: Day, others: Others) -> sqlx::Result<Replacement> {
    let old = OldDay { table, day, check_period: HISTORIES_CHECK_PERIOD };
    let Some((mut unit, change)) = begin_alone(store, old, others).await? else { return Ok(Replacement::NOTHING) };
    let exchanged = exchange_histories_within(store, &mut unit, (table, day), change).await;
    match Exchange::ended(exchanged, unit).await? {
        Exchange::Replaced { gone, left } => {
            let partition = table.partition(day);
            tracing::info!(partition, gone, left, "a day's records of jobs that have gone went after them");
            drop_detached(store).await.map(|()| Replacement::NOTHING)
        }
        Exchange::Disturbed => Ok(Replacement::Disturbed),
        Exchange::Checked | Exchange::Unchecked | Exchange::Busy => Ok(Replacement::NOTHING),
    }
}

async fn exchange_histories_within(
    store: &Core,
    connection: &mut PgConnection,
    (table, day): (Table, Day),
    change: i64,
) -> sqlx::Result<Exchange> {
    let now = store.sessions.now(connection).await?;
    let partition = table.partition(day);
    // The time before which jobs were removed, if any were since the last check.
    let before: Option<At> = sqlx::query_scalar(
        "select max(jobs_gone_before) from punctual_dropped_partitions
         having max(looked_at) filter (where jobs_gone_before is not null)
             > coalesce(max(looked_at) filter (where partition = $1), '-infinity')",
    )
    .bind(&partition)
    .fetch_optional(&mut *connection)
    .await?
    .flatten();
    let Some(At(before)) = before.filter(|before| day.plus(1).start() <= before.0) else {
        return Ok(Exchange::Unchecked);
    };
    // Jobs before that time either exist or were removed.
    let with_jobs = format!(
        "{partition} e left join (select id from punctual_jobs where scheduled_at < '{before}') j on j.id = e.job_id"
    );
    let gone = format!("e.job_id < '{:032x}' and j.id is null", first_id(before).to_bits());
    let Some(leaving) = leaving(connection, &with_jobs, &gone).await? else {
        record_check(connection, &partition, now, None).await?;
        return Ok(Exchange::Checked);
    };
    let left = copy(connection, table, day, &format!("select e.* from {with_jobs} where not ({gone})")).await?;
    if !is_undisturbed(connection, change).await? {
        return Ok(Exchange::Disturbed);
    }
    if !lock_partitions(connection, &[table], day).await? {
        return Ok(Exchange::Busy);
    }
    exchange(connection, table, day, left > 0).await?;
    record_check(connection, &partition, now, None).await?;
    Ok(Exchange::Replaced { gone: leaving, left })
}

/// A condition that is true for a job `j` that has passed its retention period, as finished and as deleted.
fn is_gone(now: Timestamp, keep: RetentionPolicy, deleted: Duration) -> String {
    let cutoff = now.before(deleted);
    let finished = |status, kept: Duration| format!("when '{status}' then {}::float8", kept.as_millis());
    let kept = [
        finished("succeeded", keep.succeeded),
        finished("dead", keep.dead),
        finished("cancelled", keep.cancelled),
        finished("deleted", Duration::ZERO),
    ];
    format!(
        "j.finished_at is not null and case when j.status = 'deleted' then j.updated_at else j.finished_at end
             + case when j.status <> 'deleted' and j.keep_for_ms is not null then j.keep_for_ms
                    else case j.status {} end end * interval '1 millisecond' <= '{cutoff}'
         and (j.unique_key is null or not exists (select from punctual_keys k where k.job_id = j.id and k.expires_at > '{now}'))
         and (not j.flow or not exists (
             select from punctual_dependencies d join punctual_waiting w on w.id = d.child where d.parent = j.id and d.succeeded is null))",
        kept.join(" ")
    )
}

/// The number of rows to remove; `None` if they are the smaller part.
async fn leaving(connection: &mut PgConnection, rows: &str, gone: &str) -> sqlx::Result<Option<i64>> {
    let count = format!("select count(*), count(*) filter (where {gone}) from {rows}");
    let row = sqlx::query(AssertSqlSafe(count)).fetch_one(connection).await?;
    let (all, leaving): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok((leaving > 0 && leaving >= all - leaving).then_some(leaving))
}

async fn is_empty(connection: &mut PgConnection, table: Table, day: Day) -> sqlx::Result<bool> {
    let text = format!("select not exists (select from {})", table.partition(day));
    sqlx::query_scalar(AssertSqlSafe(text)).persistent(false).fetch_one(connection).await
}

async fn drop_if_empty(connection: &mut PgConnection, table: Table, day: Day) -> sqlx::Result<()> {
    if lock_partitions(connection, &[table], day).await? && is_empty(connection, table, day).await? {
        detach(connection, table, day).await?;
    }
    Ok(())
}

/// Drops the empty partitions of old days.
async fn drop_empty(store: &Core, table: Table) -> sqlx::Result<()> {
    let now = store.clock_now();
    let mut unit = store.sessions.single().await?;
    let mut empty = Vec::new();
    for day in of_size(&mut unit, table, 0).await?.into_iter().filter(|day| is_old(day.plus(1), now)) {
        if is_empty(&mut unit, table, day).await? {
            empty.push(day);
        }
    }
    unit.done().await?;
    for day in empty {
        let old = OldDay { table, day, check_period: Duration::ZERO };
        let Some((mut unit, _)) = begin_alone(store, old, Others::Wait).await? else { return Ok(()) };
        let dropped = drop_if_empty(&mut unit, table, day).await;
        unit.ended(dropped).await?;
    }
    drop_detached(store).await
}

/// Records that a day was checked, and whether its jobs were removed.
async fn record_check(
    connection: &mut PgConnection,
    partition: &str,
    now: Timestamp,
    jobs_gone_before: Option<Timestamp>,
) -> sqlx::Result<()> {
    let record = sqlx::query(
        "insert into punctual_dropped_partitions (partition, looked_at, jobs_gone_before) values ($1, $2, $3)
         on conflict (partition) do update set looked_at = excluded.looked_at,
             jobs_gone_before = coalesce(excluded.jobs_gone_before, punctual_dropped_partitions.jobs_gone_before)",
    );
    record.bind(partition).bind(At(now)).bind(jobs_gone_before.map(At)).execute(connection).await.map(drop)
}

/// Lower bound of the ids of jobs scheduled for `at` or later.
fn first_id(at: Timestamp) -> JobId {
    JobId::from_bits(u128::from((at.as_micros() / 1_000).unsigned_abs()) << 80)
}
