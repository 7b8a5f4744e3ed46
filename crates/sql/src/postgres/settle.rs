//! Ends executions and extends leases.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

use punctual_core::{
    AttemptId, AttemptStatus, ProgressReport, Settled, Settlement, Status, StoreError, WorkerId, dispatch::Start,
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    core::Core,
    error,
    flow::{self, FlowWriter, Tables, Woken},
    queue_limits::slots,
    read, ready_keys, rows, statements as sql, suspects,
    value::{At, Uuid, job_id, some_of, uuid},
};

/// Maximum number of tries after deadlocks and similar conflicts.
const TRIES_MAX: usize = 5;

/// Ends executions whose fence matches and whose handlers have ended or are no longer waited for.
pub(crate) async fn settle(store: &Core, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
    let (family, plain) = parted(&settlements);
    suspects::make_lanes(store, settlements.iter().filter(|one| is_lost(one))).await?;
    let mut done = SettledExecutions::default();
    if !plain.is_empty() {
        done = with_retries(store, || try_settle(store, &plain)).await?;
    }
    // The settlements not applied: the fence did not match, or the end has consequences.
    let left: Vec<&Settlement> =
        plain.into_iter().filter(|one| !done.fences.contains(&fence(one))).chain(family).collect();
    if !left.is_empty() {
        let (more, woken) = with_retries(store, || try_settle_family(store, &left)).await?;
        done.add(more);
        flow::announce(store, &woken);
    }
    if done.limited {
        store.hints.notify_work();
    }
    announce(store, &settlements);
    Ok(settlements.iter().map(|settlement| answer(&mut done, settlement)).collect())
}

/// Splits settlements into those whose ends are known to have consequences, and the others. Settlements of the same
/// execution stay together, since the first of them counts.
fn parted(settlements: &[Settlement]) -> (Vec<&Settlement>, Vec<&Settlement>) {
    let follows = |one: &&Settlement| one.flow || is_lost(one);
    let known: HashSet<AttemptId> = settlements.iter().filter(follows).map(|one| one.attempt).collect();
    settlements.iter().partition(|one| known.contains(&one.attempt))
}

/// Retries an operation after a conflict, or after refreshing outdated partitions.
async fn with_retries<T, F: Future<Output = sqlx::Result<T>>>(
    store: &Core,
    attempt: impl Fn() -> F,
) -> Result<T, StoreError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match attempt().await {
            Err(error) if tries < TRIES_MAX && (error::is_retryable(&error) || error::is_concurrent_change(&error)) => {
            }
            Err(error)
                if tries < TRIES_MAX && (error::is_partition_gone(&error) || error::is_partition_conflict(&error)) =>
            {
                read::refresh_days(store).await.map_err(|error| store.sessions.error(error))?;
            }
            result => return result.map_err(|error| store.sessions.error(error)),
        }
    }
}

/// Notifies processes that wait for work or for a job.
pub(crate) fn announce(store: &Core, settlements: &[Settlement]) {
    if settlements.iter().any(|settlement| settlement.ending.status().is_active()) {
        store.scan_bounds.changed();
        store.hints.notify_work();
    }
    // A released job keeps its position, and jobs behind it may have been claimed since.
    if settlements.iter().any(|settlement| settlement.ending.status() == Status::Queued) {
        store.hints.notify_late_work();
    }
    store.hints.notify_jobs();
}

/// The executions whose fence matched, and whether any of them was limited, so that another job may start now.
#[derive(Default)]
pub(crate) struct SettledExecutions {
    fences: HashSet<(AttemptId, WorkerId)>,
    limited: bool,
}

impl SettledExecutions {
    fn add(&mut self, more: Self) {
        self.fences.extend(more.fences);
        self.limited |= more.limited;
    }
}

/// Whether the worker was lost, which makes the job a suspect.
fn is_lost(settlement: &Settlement) -> bool {
    settlement.attempt_status == AttemptStatus::Lost
}

fn fence(settlement: &Settlement) -> (AttemptId, WorkerId) {
    (settlement.attempt, settlement.worker)
}

/// Ends executions whose ends have no consequences.
async fn try_settle(store: &Core, settlements: &[&Settlement]) -> sqlx::Result<SettledExecutions> {
    let tables = store.days.by_table(settlements.iter().copied(), |settlement| settlement.attempt.job);
    let one = tables.len() == 1;
    let mut unit = if one { store.sessions.single().await? } else { store.sessions.several().await? };
    let settled = settle_tables(&mut unit, store.sessions.clock(), tables).await;
    unit.ended(settled).await
}

async fn settle_tables(
    connection: &mut PgConnection,
    now: Option<At>,
    tables: BTreeMap<String, Vec<&Settlement>>,
) -> sqlx::Result<SettledExecutions> {
    let mut done = SettledExecutions::default();
    for (table, settlements) in tables {
        let batch = TableBatch { table: &table, settlements, begun: None };
        done.add(batch.settle(connection, now, &sql::SETTLE).await?);
    }
    Ok(done)
}

/// Ends executions with all consequences. Also releases the slots of stale settlements.
async fn try_settle_family(store: &Core, settlements: &[&Settlement]) -> sqlx::Result<(SettledExecutions, Woken)> {
    let mut unit = store.sessions.several().await?;
    let writer = FlowWriter { now: store.sessions.clock(), tables: Tables::Days(&store.days) };
    let settled = settle_family(&mut unit, writer, settlements).await;
    unit.ended(settled).await
}

async fn settle_family(
    connection: &mut PgConnection,
    writer: FlowWriter<'_>,
    settlements: &[&Settlement],
) -> sqlx::Result<(SettledExecutions, Woken)> {
    let (mut done, woken) = settle_and_follow(connection, writer, settlements).await?;
    let stale = settlements.iter().copied().filter(|one| !done.fences.contains(&fence(one)));
    done.limited |= slots::release_stale(connection, writer.now, stale).await?;
    Ok((done, woken))
}

async fn settle_and_follow(
    connection: &mut PgConnection,
    writer: FlowWriter<'_>,
    settlements: &[&Settlement],
) -> sqlx::Result<(SettledExecutions, Woken)> {
    let mut done = SettledExecutions::default();
    for (table, settlements) in writer.tables.of(settlements.iter().copied(), |settlement| settlement.attempt.job) {
        let batch = TableBatch { table: &table, settlements, begun: None };
        done.add(batch.settle(connection, writer.now, &sql::SETTLE_FLOW).await?);
    }
    // Of two settlements of the same execution, the first was applied.
    let mut fences = done.fences.clone();
    let applied: Vec<&Settlement> = settlements.iter().copied().filter(|one| fences.remove(&fence(one))).collect();
    suspects::set_apart(connection, applied.iter().copied().filter(|one| is_lost(one))).await?;
    let ended: BTreeMap<_, _> = applied
        .into_iter()
        .map(|one| (one.attempt.job, one.ending.status()))
        .filter(|(_, status)| status.is_finished())
        .collect();
    if ended.is_empty() {
        return Ok((done, Woken::new()));
    }
    writer.count_ends(connection, &ended).await?;
    let woken = writer.lock_and_follow(connection, ended).await?;
    Ok((done, woken))
}

/// Ends executions within a caller's transaction, which must not fail because a partition was removed.
pub(crate) async fn settle_in(
    connection: &mut PgConnection,
    now: Option<At>,
    settlements: &[Settlement],
) -> sqlx::Result<Vec<Settled>> {
    let all: Vec<&Settlement> = settlements.iter().collect();
    let (mut done, _) = settle_and_follow(connection, FlowWriter { now, tables: Tables::Whole }, &all).await?;
    Ok(settlements.iter().map(|settlement| answer(&mut done, settlement)).collect())
}

/// Records executions that have both begun and succeeded, of jobs that have not changed since they were enqueued;
/// returns for each whether it was recorded.
pub(crate) async fn finish(store: &Core, ends: &[(Start, Settlement)]) -> Result<Vec<bool>, StoreError> {
    let mut done = SettledExecutions::default();
    let starts: HashMap<AttemptId, &Start> = ends.iter().map(|(start, end)| (end.attempt, start)).collect();
    let workers: BTreeSet<WorkerId> = ends.iter().map(|(start, _)| start.worker).collect();
    for worker in workers {
        let of_worker: Vec<&Settlement> =
            ends.iter().filter(|(start, _)| start.worker == worker).map(|(_, end)| end).collect();
        done.add(with_retries(store, || try_finish(store, &starts, &of_worker)).await?);
    }
    store.hints.notify_jobs();
    Ok(ends.iter().map(|(_, end)| done.fences.contains(&fence(end))).collect())
}

async fn try_finish(
    store: &Core,
    starts: &HashMap<AttemptId, &Start>,
    settlements: &[&Settlement],
) -> sqlx::Result<SettledExecutions> {
    let tables = store.days.by_table(settlements.iter().copied(), |settlement| settlement.attempt.job);
    let one = tables.len() == 1;
    let mut unit = if one { store.sessions.single().await? } else { store.sessions.several().await? };
    let finished = finish_tables(store, &mut unit, starts, tables).await;
    unit.ended(finished).await
}

async fn finish_tables(
    store: &Core,
    connection: &mut PgConnection,
    starts: &HashMap<AttemptId, &Start>,
    tables: BTreeMap<String, Vec<&Settlement>>,
) -> sqlx::Result<SettledExecutions> {
    let mut done = SettledExecutions::default();
    for (table, settlements) in tables {
        let batch = TableBatch { table: &table, settlements, begun: Some(Begun { store, starts }) };
        done.add(batch.settle(connection, store.sessions.clock(), &sql::FINISH).await?);
    }
    Ok(done)
}

/// Of two settlements of the same execution, the first was applied.
fn answer(done: &mut SettledExecutions, settlement: &Settlement) -> Settled {
    if done.fences.remove(&fence(settlement)) { Settled::Done } else { Settled::Stale }
}

/// Settlements of jobs in one table.
struct TableBatch<'a> {
    table: &'a str,
    settlements: Vec<&'a Settlement>,
    /// For executions whose beginnings are not recorded yet.
    begun: Option<Begun<'a>>,
}

/// The beginnings of executions that are recorded with their ends.
struct Begun<'a> {
    store: &'a Core,
    starts: &'a HashMap<AttemptId, &'a Start>,
}

impl TableBatch<'_> {
    /// Ends the executions.
    async fn settle(
        self,
        connection: &mut PgConnection,
        now: Option<At>,
        forms: &sql::Forms,
    ) -> sqlx::Result<SettledExecutions> {
        let Self { table, mut settlements, begun } = self;
        // Sorted the same way everywhere, so that two batches never deadlock. The sort is stable: the first of equals
        // stays first.
        settlements.sort_by_key(|settlement| settlement.attempt);
        settlements.dedup_by_key(|settlement| (settlement.attempt, settlement.worker));
        let fault = |settlement: &Settlement| settlement.fault.as_ref().map(rows::text).transpose();
        let delay = |settlement: &Settlement| settlement.ending.delay().map(|delay| delay.as_micros() as i64);
        let Some(first) = settlements.first().copied() else { return Ok(SettledExecutions::default()) };
        let alike = settlements.iter().all(|settlement| are_alike(first, settlement));
        let goes_on =
            |settlement: &&Settlement| settlement.ending.status().is_active() || settlement.ending.path().len() > 1;
        let any_goes_on = settlements.iter().any(goes_on);
        macro_rules! column {
            ($s:ident, $value:expr) => {
                settlements.iter().map(|$s| $value).collect::<Vec<_>>()
            };
        }
        let mut query = sqlx::query(sql::of_table(forms.of(alike, any_goes_on), table))
            .bind(now)
            .bind(column!(s, uuid(s.attempt.job)))
            .bind(column!(s, At(s.attempt.job.timestamp())))
            .bind(column!(s, s.attempt.run as i32))
            .bind(some_of(column!(s, s.result.as_ref().map(|result| result.as_str()))));
        // Binds the value of the first settlement for all, or an array with a value per settlement.
        macro_rules! bind {
            ($s:ident, $value:expr) => {
                query = if alike {
                    let $s = first;
                    query.bind($value)
                } else {
                    query.bind(column!($s, $value))
                };
            };
        }
        bind!(s, Uuid::from_u128(s.worker.to_bits()));
        bind!(s, s.only_if_expired);
        bind!(s, s.attempt_status.as_str());
        bind!(s, s.ending.status().as_str());
        bind!(s, delay(s));
        bind!(s, s.gives_back_attempt());
        bind!(s, s.ending.path()[0].as_str());
        bind!(s, s.ending.path().get(1).map(|status| status.as_str()));
        query = if alike {
            query.bind(fault(first)?)
        } else {
            query.bind(settlements.iter().map(|settlement| fault(settlement)).collect::<sqlx::Result<Vec<_>>>()?)
        };
        if let Some(Begun { store, starts }) = begun {
            let starts: Vec<&Start> = settlements.iter().filter_map(|s| starts.get(&s.attempt).copied()).collect();
            let (lanes, times, _) = ready_keys::columns(store, starts.iter().map(|start| &start.hint));
            query = query.bind(lanes).bind(times);
            query = query.bind(starts.iter().map(|start| At(start.started_at)).collect::<Vec<_>>());
        }
        let held = query.fetch_one(connection).await?;
        let (fences, jobs): (i64, i64) = (held.try_get(0)?, held.try_get(1)?);
        if jobs < fences {
            // The snapshot of a caller's own transaction is older than the partition that the job is in now.
            let reason = "a job cannot be seen by this transaction any more; begin it anew, or use READ COMMITTED";
            return Err(sqlx::Error::Decode(reason.into()));
        }
        let limited = held.try_get(5)?;
        if fences as usize == settlements.len() {
            return Ok(SettledExecutions {
                fences: settlements.iter().map(|settlement| fence(settlement)).collect(),
                limited,
            });
        }
        let (ids, workers): (Option<Vec<Uuid>>, Option<Vec<Uuid>>) = (held.try_get(2)?, held.try_get(4)?);
        let runs: Option<Vec<i32>> = held.try_get(3)?;
        let fences = ids.into_iter().flatten().zip(runs.into_iter().flatten()).zip(workers.into_iter().flatten());
        let fence = |((id, run), worker): ((Uuid, i32), Uuid)| {
            (AttemptId { job: job_id(id), run: run as u32 }, WorkerId::from_bits(worker.as_u128()))
        };
        Ok(SettledExecutions { fences: fences.map(fence).collect(), limited })
    }
}

/// Whether two executions ended in the same way, in the same worker.
fn are_alike(one: &Settlement, other: &Settlement) -> bool {
    (one.worker, one.only_if_expired, one.attempt_status, one.ending, &one.fault)
        == (other.worker, other.only_if_expired, other.attempt_status, other.ending, &other.fault)
}

/// Extends leases; returns which were still held.
pub(crate) async fn extend(
    store: &Core,
    worker: WorkerId,
    lease: Duration,
    attempts: &[AttemptId],
) -> sqlx::Result<Vec<bool>> {
    let mut sorted = attempts.to_vec();
    sorted.sort_unstable();
    let mut unit = store.sessions.single().await?;
    let kept = sqlx::query(*sql::EXTEND_LEASES)
        .bind(store.sessions.clock())
        .bind(sorted.iter().map(|attempt| uuid(attempt.job)).collect::<Vec<_>>())
        .bind(sorted.iter().map(|attempt| attempt.run as i32).collect::<Vec<_>>())
        .bind(Uuid::from_u128(worker.to_bits()))
        .bind(lease.as_micros() as i64)
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let kept = attempts_of(&kept)?;
    Ok(attempts.iter().map(|attempt| kept.contains(attempt)).collect())
}

/// Records that handlers are about to start; returns which attempts were still held.
pub(crate) async fn confirm(store: &Core, worker: WorkerId, attempts: &[AttemptId]) -> sqlx::Result<Vec<bool>> {
    let mut sorted = attempts.to_vec();
    sorted.sort_unstable();
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::CONFIRM)
        .bind(store.sessions.clock())
        .bind(sorted.iter().map(|attempt| uuid(attempt.job)).collect::<Vec<_>>())
        .bind(sorted.iter().map(|attempt| attempt.run as i32).collect::<Vec<_>>())
        .bind(Uuid::from_u128(worker.to_bits()))
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let held = attempts_of(&rows)?;
    Ok(attempts.iter().map(|attempt| held.contains(attempt)).collect())
}

/// The attempts in rows of ids and runs.
fn attempts_of(rows: &[PgRow]) -> sqlx::Result<HashSet<AttemptId>> {
    rows.iter().map(|row| Ok(AttemptId { job: job_id(row.try_get(0)?), run: rows::number(row, 1)? })).collect()
}

/// Returns which attempts this worker currently holds.
pub(crate) async fn held(store: &Core, worker: WorkerId, attempts: &[AttemptId]) -> sqlx::Result<Vec<bool>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::HELD_LEASES)
        .bind(attempts.iter().map(|attempt| uuid(attempt.job)).collect::<Vec<_>>())
        .bind(Uuid::from_u128(worker.to_bits()))
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let runs: HashMap<Uuid, i32> =
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<sqlx::Result<_>>()?;
    Ok(attempts.iter().map(|attempt| runs.get(&uuid(attempt.job)) == Some(&(attempt.run as i32))).collect())
}

/// Stores progress and logs of running handlers.
pub(crate) async fn report_progress(store: &Core, reports: &[ProgressReport]) -> sqlx::Result<()> {
    let mut unit = store.sessions.several().await?;
    let reported = report_within(&mut unit, reports).await;
    unit.ended(reported).await?;
    if reports.iter().any(|report| report.progress.is_some()) {
        store.hints.notify_jobs();
    }
    Ok(())
}

async fn report_within(connection: &mut PgConnection, reports: &[ProgressReport]) -> sqlx::Result<()> {
    let mut progress: Vec<(&ProgressReport, String)> = Vec::new();
    for report in reports {
        if let Some(reported) = &report.progress {
            // Of two reports about one execution, the later one counts.
            progress.retain(|(earlier, _)| earlier.attempt != report.attempt);
            progress.push((report, rows::text(reported)?));
        }
    }
    progress.sort_by_key(|(report, _)| report.attempt);
    if !progress.is_empty() {
        sqlx::query(*sql::SET_PROGRESS)
            .bind(progress.iter().map(|(report, _)| uuid(report.attempt.job)).collect::<Vec<_>>())
            .bind(progress.iter().map(|(report, _)| At(report.attempt.job.timestamp())).collect::<Vec<_>>())
            .bind(progress.iter().map(|(report, _)| report.attempt.run as i32).collect::<Vec<_>>())
            .bind(progress.iter().map(|(report, _)| Uuid::from_u128(report.worker.to_bits())).collect::<Vec<_>>())
            .bind(progress.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
    }
    let lines: Vec<_> = reports
        .iter()
        .flat_map(|report| report.lines.iter().map(move |(number, line)| (report.attempt, number, line)))
        .collect();
    if !lines.is_empty() {
        sqlx::query(*sql::INSERT_LOGS)
            .bind(lines.iter().map(|(attempt, _, _)| uuid(attempt.job)).collect::<Vec<_>>())
            .bind(lines.iter().map(|(attempt, _, _)| At(attempt.job.timestamp())).collect::<Vec<_>>())
            .bind(lines.iter().map(|(attempt, _, _)| attempt.run as i32).collect::<Vec<_>>())
            .bind(lines.iter().map(|(_, number, _)| **number as i32).collect::<Vec<_>>())
            .bind(lines.iter().map(|(_, _, line)| At(line.at)).collect::<Vec<_>>())
            .bind(lines.iter().map(|(_, _, line)| line.level.as_str()).collect::<Vec<_>>())
            .bind(lines.iter().map(|(_, _, line)| line.message.as_str()).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
