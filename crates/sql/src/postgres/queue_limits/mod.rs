//! Selects the queued jobs that may start where limits are set; the rules are in [`punctual_core::limiter`].
//!
//! Jobs with a concurrency key are stored in lanes of their own. Every change to one of them adds a wake-up of its key.
//! A claim checks the keys with wake-ups first and maintains in `punctual_limit_heads` the keys that may start a job.
//! The cost of a claim thus depends on the jobs it takes and on the changes, not on the number of waiting jobs. Claims
//! that apply the limits of one queue run one after the other: each must see the starts of the others.

mod choice;
pub(crate) mod slots;
mod usage;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

use punctual_core::{
    ClaimRequest, JobId, Rate, Timestamp,
    limiter::{LimitKey, Records},
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use self::usage::{close, evaluate, starts};
pub(crate) use self::usage::{prune, usage_of};
use super::{
    claim::{
        lanes::Served,
        scan_bounds::ScanMode,
        take::{self, ClaimScan, Plain, ReadyKey, ScanResult},
    },
    rows,
    session::Unit,
    statements as sql,
    value::{At, Uuid, job_id},
};

/// Maximum number of keys with wake-ups that a claim evaluates per round and queue.
const ROUND_MAX_KEYS: i64 = 2_000;
/// Maximum number of such rounds before a claim chooses from the keys known so far.
const ROUNDS_MAX: usize = 100;
/// When to retry limits that another claim had locked.
const RETRY_AFTER: Duration = Duration::from_millis(10);
/// The key under which `punctual_limit_starts` and `punctual_limit_fairness` store the queue itself.
const QUEUE: &str = "";
/// The key, not valid for jobs, under which `punctual_limit_fairness` stores the jobs without a key.
const KEYLESS: &str = " ";

/// A queue and a key.
type Key<'a> = (&'a str, &'a str);

/// A queue and a key, as read.
type QueueKey = (String, String);

/// A lane whose jobs are limited, with its queue.
type LimitedLane = (String, Served);

/// Takes the first jobs that the worker serves and the limits allow; `None` if queue settings have changed since they
/// were read.
pub(crate) async fn take(
    scan: &ClaimScan<'_>,
    plain: &Plain,
    limited: &[LimitedLane],
) -> sqlx::Result<Option<ScanResult>> {
    let work = work(scan, limited).await?;
    let (mut opens_at, mut first) = (work.opens_at, None);
    if !work.queues.is_empty() {
        let lanes: Vec<&LimitedLane> = limited.iter().filter(|(queue, _)| work.queues.contains(queue)).collect();
        let claim = LimitedClaim { scan: *scan, plain, lanes };
        match claim.take(&work.queues).await? {
            None => return Ok(None),
            Some((claimed, opens)) => {
                opens_at = opens_at.into_iter().chain(opens).min();
                first = claimed;
            }
        }
    }
    let (jobs, next_run_at) = first.map(|claimed| (claimed.jobs, claimed.next_run_at)).unwrap_or_default();
    let room = scan.request.limit - jobs.len();
    if room == 0 {
        return Ok(Some(ScanResult { jobs, next_run_at, opens_at }));
    }
    // Other claims may have taken the chosen jobs without limits, or hold the locks.
    let left = plain.without(&jobs);
    let rest = ClaimRequest { limit: room, ..scan.request.clone() };
    let rest = ClaimScan { request: &rest, ..*scan };
    match rest.take(left.as_ref().unwrap_or(plain)).await {
        Ok(Some(more)) => Ok(Some(ScanResult {
            jobs: jobs.into_iter().chain(more.jobs).collect(),
            opens_at,
            next_run_at: more.next_run_at,
        })),
        // Jobs that are already claimed must not be lost.
        refused if jobs.is_empty() => refused,
        _ => Ok(Some(ScanResult { jobs, next_run_at, opens_at })),
    }
}

/// The queues whose limits may allow a start, and when the rate of a key next allows one.
struct Work {
    queues: BTreeSet<String>,
    opens_at: Option<Timestamp>,
}

async fn work(scan: &ClaimScan<'_>, limited: &[LimitedLane]) -> sqlx::Result<Work> {
    let store = scan.store;
    let queues: Vec<&String> = limited.iter().map(|(queue, _)| queue).collect::<BTreeSet<_>>().into_iter().collect();
    let (keyed, limited): (Vec<&LimitedLane>, Vec<&LimitedLane>) = limited.iter().partition(|(_, lane)| lane.keyed);
    let (times, ids) = bounds(scan.mode, limited.iter().map(|(_, lane)| lane));
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::LIMITS_WORK)
        .bind(&queues)
        .bind(keyed.iter().map(|(_, lane)| lane.number).collect::<Vec<_>>())
        .bind(limited.iter().map(|(_, lane)| lane.number).collect::<Vec<_>>())
        .bind(times)
        .bind(ids)
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let (now, mut work) = (store.clock_now(), Work { queues: BTreeSet::new(), opens_at: None });
    let lanes: Vec<&LimitedLane> = keyed.into_iter().chain(limited).collect();
    for row in &rows {
        let number = row.try_get::<i64, _>(1)? as usize - 1;
        match (row.try_get::<i32, _>(0)?, rows::optional_instant(row, 2)?) {
            (0, Some(at)) if at > now => work.opens_at = work.opens_at.into_iter().chain([at]).min(),
            (0, _) => drop(work.queues.insert(queues[number].clone())),
            _ => drop(work.queues.insert(lanes[number].0.clone())),
        }
    }
    Ok(work)
}

/// The positions in lanes before which no job is expected.
fn bounds<'a>(mode: &ScanMode<'_>, lanes: impl Iterator<Item = &'a Served>) -> (Vec<At>, Vec<Uuid>) {
    lanes
        .map(|lane| mode.lane_bound(lane.bound))
        .map(|bound| (At(bound.run_at), Uuid::from_u128(bound.job.map_or(0, JobId::to_bits))))
        .unzip()
}

/// A claim that applies limits.
struct LimitedClaim<'a> {
    scan: ClaimScan<'a>,
    plain: &'a Plain,
    lanes: Vec<&'a LimitedLane>,
}

/// A transaction that has locked the limits of queues, with the time at which they are evaluated.
struct LockedQueues {
    unit: Unit,
    now: Timestamp,
    queues: BTreeSet<String>,
}

/// The rows of the jobs that a claim took under limits.
struct TakenRows {
    rows: Vec<PgRow>,
    /// The positions of the jobs in the order of the claim.
    order: HashMap<JobId, usize>,
    /// Whether the settings of other queues have changed since they were read.
    settings_changed: bool,
    /// When the limits next allow a start.
    opens_at: Option<Timestamp>,
}

/// The result of evaluating keys with wake-ups.
struct Evaluated {
    /// Whether all were evaluated.
    all: bool,
    /// When the rate of one of them next allows a start; now, if not all were evaluated.
    opens_at: Option<Timestamp>,
}

impl LimitedClaim<'_> {
    /// Takes the jobs that the limits of queues allow, together with jobs without limits, unless other claims have
    /// locked all of the queues; also returns when to retry the queues that allow none. Returns `None` if the settings
    /// of queues have changed since they were read.
    async fn take(&self, queues: &BTreeSet<String>) -> sqlx::Result<Option<(Option<ScanResult>, Option<Timestamp>)>> {
        let mut rounds = 0;
        loop {
            rounds += 1;
            let Some(mut locked) = self.begin(queues).await? else { return Ok(None) };
            if locked.queues.is_empty() {
                locked.unit.done().await?;
                return Ok(Some((None, Some(locked.now.after(RETRY_AFTER)))));
            }
            let evaluated = self.evaluate_woken(&mut locked).await;
            let evaluated = match evaluated {
                Ok(evaluated) => evaluated,
                Err(error) => return locked.unit.ended(Err(error)).await,
            };
            // The order is exact once every key that may start a job is known; the number of rounds is limited
            // nevertheless.
            if evaluated.all || rounds == ROUNDS_MAX {
                return self.take_at(locked, queues, evaluated.opens_at).await;
            }
            locked.unit.done().await?;
        }
    }

    /// Locks the limits of queues, except those that another claim has locked.
    async fn begin(&self, queues: &BTreeSet<String>) -> sqlx::Result<Option<LockedQueues>> {
        let mut unit = self.scan.store.sessions.several().await?;
        let locked = self.lock(&mut unit, queues).await;
        match locked {
            Ok(Some((now, queues))) => Ok(Some(LockedQueues { unit, now, queues })),
            locked => unit.ended(locked.map(|_| None)).await,
        }
    }

    /// Returns the time at which the limits are evaluated, and the queues that were locked; `None` if the settings of
    /// queues have changed since they were read.
    async fn lock(
        &self,
        connection: &mut PgConnection,
        queues: &BTreeSet<String>,
    ) -> sqlx::Result<Option<(Timestamp, BTreeSet<String>)>> {
        let names: Vec<&String> = queues.iter().collect();
        let free: Vec<String> = sqlx::query_scalar(*sql::LIMITS_LOCK).bind(&names).fetch_all(&mut *connection).await?;
        let begin = sqlx::query(*sql::LIMITS_BEGIN).bind(self.scan.store.sessions.clock());
        let begin = begin.fetch_one(connection).await?;
        let is_known = begin.try_get::<i64, _>(1)? == self.scan.queues.revision;
        let now = rows::instant(&begin, 0)?;
        Ok(is_known.then(|| (now, free.into_iter().collect())))
    }

    async fn take_at(
        &self,
        LockedQueues { mut unit, now, queues: free }: LockedQueues,
        all: &BTreeSet<String>,
        opens_at: Option<Timestamp>,
    ) -> sqlx::Result<Option<(Option<ScanResult>, Option<Timestamp>)>> {
        let taken = self.take_within(&mut unit, &free, now).await;
        let taken = unit.ended(taken).await?;
        if taken.settings_changed {
            return Ok(None);
        }
        let mut opens_at = opens_at.into_iter().chain(taken.opens_at).min();
        if free.len() < all.len() {
            opens_at = opens_at.into_iter().chain([now.after(RETRY_AFTER)]).min();
        }
        let mut jobs = take::claimed_rows(self.scan.store, &taken.rows)?;
        jobs.sort_by_key(|job| taken.order.get(&job.attempt.job));
        let next_run_at = self.scan.store.scan_bounds.learn(&taken.rows)?;
        Ok(Some((Some(ScanResult { jobs, next_run_at, opens_at: None }), opens_at)))
    }

    async fn take_within(
        &self,
        connection: &mut PgConnection,
        free: &BTreeSet<String>,
        now: Timestamp,
    ) -> sqlx::Result<TakenRows> {
        let choice = self.candidates(connection, free, now).await?.choose(self.scan.request.limit);
        let rows = self.take_chosen(connection, &choice.jobs, now).await?;
        // Only settings of another queue can have changed: changes of these queues wait for this transaction to end.
        let revision = rows.first().map(|row| row.try_get::<i64, _>(18)).transpose()?;
        let settings_changed = revision.is_some_and(|revision| revision != self.scan.queues.revision);
        let claimed = rows.iter().map(|row| row.try_get(2)).collect::<sqlx::Result<Vec<Option<Uuid>>>>()?;
        let claimed: HashSet<JobId> = claimed.into_iter().flatten().map(job_id).collect();
        let records = choice.records(now, |key| claimed.contains(&key.id));
        record(connection, &records).await?;
        close(connection, &records.full).await?;
        let opens_at = evaluate(connection, self.scan.queues, &records.open, now).await?;
        let opens_at = opens_at.into_iter().chain(reopens_at(connection, &records.rates, now).await?).min();
        let order = choice.jobs.iter().enumerate().map(|(index, key)| (key.id, index)).collect();
        Ok(TakenRows { rows, order, settings_changed, opens_at })
    }

    /// Evaluates keys with due wake-ups.
    async fn evaluate_woken(&self, LockedQueues { unit, now, queues }: &mut LockedQueues) -> sqlx::Result<Evaluated> {
        let names: Vec<&String> = queues.iter().collect();
        let query = sqlx::query(*sql::DUE_WAKEUPS).bind(At(*now)).bind(names).bind(ROUND_MAX_KEYS);
        let rows = query.fetch_all(&mut **unit).await?;
        let (mut keys, mut counts) = (BTreeSet::new(), HashMap::<String, i64>::new());
        for row in &rows {
            let key: QueueKey = (row.try_get(0)?, row.try_get(1)?);
            *counts.entry(key.0.clone()).or_default() += 1;
            keys.insert(key);
        }
        let keys: BTreeSet<Key<'_>> = keys.iter().map(|(queue, key)| (queue.as_str(), key.as_str())).collect();
        let opens_at = evaluate(unit, self.scan.queues, &keys, *now).await?;
        let all = counts.values().all(|count| *count < ROUND_MAX_KEYS);
        Ok(Evaluated { all, opens_at: if all { opens_at } else { Some(*now) } })
    }

    async fn take_chosen(
        &self,
        connection: &mut PgConnection,
        keys: &[ReadyKey],
        now: Timestamp,
    ) -> sqlx::Result<Vec<PgRow>> {
        let limited =
            self.lanes.iter().filter(|(queue, _)| self.scan.queues.guards(queue)).map(|(_, lane)| lane.number);
        self.scan.take_chosen(connection, keys, limited.collect(), Some(At(now))).await
    }
}

/// Stores the starts and turns that limits need, besides the running jobs.
async fn record(
    connection: &mut PgConnection,
    Records { starts, turns, rounds, .. }: &Records<'_>,
) -> sqlx::Result<()> {
    if !starts.is_empty() {
        sqlx::query(*sql::ADD_STARTS)
            .bind(starts.keys().map(|(queue, _)| *queue).collect::<Vec<_>>())
            .bind(starts.keys().map(|(_, key)| stored(*key)).collect::<Vec<_>>())
            .bind(starts.values().map(|start| At(start.at)).collect::<Vec<_>>())
            .bind(starts.values().map(|start| i64::from(start.count)).collect::<Vec<_>>())
            .bind(starts.values().map(|start| At(start.horizon)).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
    }
    if !turns.is_empty() {
        sqlx::query(*sql::SAVE_TURNS)
            .bind(turns.keys().map(|(queue, _)| *queue).collect::<Vec<_>>())
            .bind(turns.keys().map(|(_, key)| stored(*key)).collect::<Vec<_>>())
            .bind(turns.values().map(|turn| *turn as i64).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
    }
    for (queue, clock) in rounds {
        let forget = sqlx::query(*sql::DELETE_OLD_TURNS).bind(*queue).bind(*clock as i64);
        forget.execute(&mut *connection).await?;
    }
    Ok(())
}

/// The key under which a record is stored.
const fn stored(key: LimitKey<'_>) -> &str {
    match key {
        LimitKey::Queue => QUEUE,
        LimitKey::Keyless => KEYLESS,
        LimitKey::Key(key) => key,
    }
}

/// When the first of the rates of queues that allow no start now allows one.
async fn reopens_at(
    connection: &mut PgConnection,
    rates: &BTreeMap<&str, Rate>,
    now: Timestamp,
) -> sqlx::Result<Option<Timestamp>> {
    let rates: Vec<(&str, &str, Rate)> = rates.iter().map(|(queue, rate)| (*queue, QUEUE, *rate)).collect();
    let starts = starts(connection, &rates, now).await?;
    Ok(rates.iter().zip(&starts).filter_map(|((.., rate), starts)| rate.reopens_at(starts, now)).min())
}
