//! Ends executions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use punctual_core::{AttemptId, AttemptStatus, Settled, Settlement, Status, StoreError, WorkerId, dispatch::Start};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    claim::{ready_keys, suspects},
    core::Core,
    error,
    flow::{self, FlowWriter, Tables, Woken},
    queue_limits::slots,
    read, rows, statements as sql,
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
        done = with_retries(store, || try_settle(store, &plain, None)).await?;
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
    /// From the row that a statement returns for settlements that it was given, each fence once.
    fn of(row: &PgRow, settlements: &[&Settlement]) -> sqlx::Result<Self> {
        let (fences, jobs): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        if jobs < fences {
            // The snapshot of a caller's own transaction is older than the partition that the job is in now.
            let reason = "a job cannot be seen by this transaction any more; begin it anew, or use READ COMMITTED";
            return Err(sqlx::Error::Decode(reason.into()));
        }
        let limited = row.try_get(5)?;
        if fences as usize == settlements.len() {
            return Ok(Self { fences: settlements.iter().map(|settlement| fence(settlement)).collect(), limited });
        }
        let (ids, workers): (Option<Vec<Uuid>>, Option<Vec<Uuid>>) = (row.try_get(2)?, row.try_get(4)?);
        let runs: Option<Vec<i32>> = row.try_get(3)?;
        let fences = ids.into_iter().flatten().zip(runs.into_iter().flatten()).zip(workers.into_iter().flatten());
        let fence = |((id, run), worker): ((Uuid, i32), Uuid)| {
            (AttemptId { job: job_id(id), run: run as u32 }, WorkerId::from_bits(worker.as_u128()))
        };
        Ok(Self { fences: fences.map(fence).collect(), limited })
    }

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

/// Ends executions whose ends have no consequences; those that have `begun` are recorded with their beginnings.
async fn try_settle(
    store: &Core,
    settlements: &[&Settlement],
    begun: Option<Begun<'_>>,
) -> sqlx::Result<SettledExecutions> {
    let tables = store.days.by_table(settlements.iter().copied(), |settlement| settlement.attempt.job);
    let one = tables.len() == 1;
    let mut unit = if one { store.sessions.single().await? } else { store.sessions.several().await? };
    let settled = settle_tables(&mut unit, store.sessions.clock(), tables, begun).await;
    unit.ended(settled).await
}

async fn settle_tables(
    connection: &mut PgConnection,
    now: Option<At>,
    tables: BTreeMap<String, Vec<&Settlement>>,
    begun: Option<Begun<'_>>,
) -> sqlx::Result<SettledExecutions> {
    let forms: &sql::Forms = if begun.is_some() { &sql::FINISH } else { &sql::SETTLE };
    let mut done = SettledExecutions::default();
    for (table, settlements) in tables {
        let batch = TableBatch { table: &table, settlements, begun };
        done.add(batch.settle(connection, now, forms).await?);
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
    let begun = Begun { store, starts: &starts };
    let workers: BTreeSet<WorkerId> = ends.iter().map(|(start, _)| start.worker).collect();
    for worker in workers {
        let of_worker: Vec<&Settlement> =
            ends.iter().filter(|(start, _)| start.worker == worker).map(|(_, end)| end).collect();
        done.add(with_retries(store, || try_settle(store, &of_worker, Some(begun))).await?);
    }
    store.hints.notify_jobs();
    Ok(ends.iter().map(|(_, end)| done.fences.contains(&fence(end))).collect())
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
#[derive(Clone, Copy)]
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
        SettledExecutions::of(&query.fetch_one(connection).await?, &settlements)
    }
}

/// Whether two executions ended in the same way, in the same worker.
fn are_alike(one: &Settlement, other: &Settlement) -> bool {
    (one.worker, one.only_if_expired, one.attempt_status, one.ending, &one.fault)
        == (other.worker, other.only_if_expired, other.attempt_status, other.ending, &other.fault)
}
