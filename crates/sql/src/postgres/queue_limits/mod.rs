//! Selects the queued jobs that may start where limits are set. [`limiter`] decides.
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
    limiter::{self},
};
use sqlx::{PgConnection, Row, postgres::PgRow};

pub(crate) use self::usage::{passed, trim};
use self::{
    choice::Candidates,
    usage::{close, look_at, starts},
};
use super::{
    core::Core,
    lanes::Served,
    queues::QueueSnapshot,
    rows,
    scan_bounds::ScanMode,
    session::Unit,
    statements as sql,
    take::{self, ChosenClaim, Plain, ReadyKey, Taken},
    value::{At, Uuid, job_id},
};

/// Maximum number of keys with wake-ups that one claim checks per queue.
const LOOK_MAX_KEYS: i64 = 2_000;
/// Maximum number of such checks before a claim chooses from the keys known so far.
const LOOKS_MAX: usize = 100;
/// When to retry limits that another claim had locked.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// The key under which `punctual_limit_starts` and `punctual_limit_fairness` store the queue itself.
const QUEUE: &str = "";
/// The key, not valid for jobs, under which `punctual_limit_fairness` stores the jobs without a key.
const KEYLESS: &str = " ";

/// A queue and a key.
type QueueKey = (String, String);

/// A lane whose jobs are limited, with its queue.
type LimitedLane = (String, Served);

/// Takes the first jobs that the worker serves and the limits allow; `None` if queue settings have changed since they
/// were read.
pub(crate) async fn try_take(
    store: &Core,
    request: &ClaimRequest,
    look: &ScanMode<'_>,
    known: &QueueSnapshot,
    (plain, limited): (&Plain, &[LimitedLane]),
) -> sqlx::Result<Option<Taken>> {
    let work = work(store, look, limited).await?;
    let (mut opens_at, mut first) = (work.opens_at, None);
    if !work.queues.is_empty() {
        let lanes: Vec<&LimitedLane> = limited.iter().filter(|(queue, _)| work.queues.contains(queue)).collect();
        let claim = LimitedClaim { store, request, look, known, plain, lanes };
        match claim.take(&work.queues).await? {
            None => return Ok(None),
            Some((taken, opens)) => {
                opens_at = opens_at.into_iter().chain(opens).min();
                first = taken;
            }
        }
    }
    let (held, next_run_at) = first.map(|taken| (taken.holds, taken.next_run_at)).unwrap_or_default();
    let room = request.limit - held.len();
    if room == 0 {
        return Ok(Some(Taken { holds: held, next_run_at, opens_at }));
    }
    // Other claims may have taken the chosen jobs without limits, or hold the locks.
    let left = plain.without(&held);
    let rest = ClaimRequest { limit: room, ..request.clone() };
    match take::try_take(store, &rest, look, known, left.as_ref().unwrap_or(plain)).await {
        Ok(Some(more)) => Ok(Some(Taken {
            holds: held.into_iter().chain(more.holds).collect(),
            opens_at,
            next_run_at: more.next_run_at,
        })),
        // Jobs that are already claimed must not be lost.
        refused if held.is_empty() => refused,
        _ => Ok(Some(Taken { holds: held, next_run_at, opens_at })),
    }
}

/// The queues whose limits may allow a start, and when the rate of a key next allows one.
struct Work {
    queues: BTreeSet<String>,
    opens_at: Option<Timestamp>,
}

async fn work(store: &Core, look: &ScanMode<'_>, limited: &[LimitedLane]) -> sqlx::Result<Work> {
    let queues: Vec<&String> = limited.iter().map(|(queue, _)| queue).collect::<BTreeSet<_>>().into_iter().collect();
    let (keyed, limited): (Vec<&LimitedLane>, Vec<&LimitedLane>) = limited.iter().partition(|(_, lane)| lane.keyed);
    let (times, ids) = bounds(look, limited.iter().map(|(_, lane)| lane));
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
fn bounds<'a>(look: &ScanMode<'_>, lanes: impl Iterator<Item = &'a Served>) -> (Vec<At>, Vec<Uuid>) {
    lanes
        .map(|lane| look.lane_bound(lane.bound))
        .map(|bound| (At(bound.run_at), Uuid::from_u128(bound.job.map_or(0, JobId::to_bits))))
        .unzip()
}

/// A claim that applies limits.
struct LimitedClaim<'a> {
    store: &'a Core,
    request: &'a ClaimRequest,
    look: &'a ScanMode<'a>,
    known: &'a QueueSnapshot,
    plain: &'a Plain,
    lanes: Vec<&'a LimitedLane>,
}

/// A transaction that has locked the limits of queues, with the time at which they are evaluated.
struct LockedQueues {
    unit: Unit,
    now: Timestamp,
    queues: BTreeSet<String>,
}

/// The result of checking keys with wake-ups.
struct Marked {
    /// Whether all were checked.
    all: bool,
    /// When the rate of one of them next allows a start; now, if not all were checked.
    opens_at: Option<Timestamp>,
}

impl LimitedClaim<'_> {
    /// Takes the jobs that the limits of queues allow, together with jobs without limits, unless other claims have
    /// locked all of the queues; also returns when to retry the queues that allow none. Returns `None` if the settings
    /// of queues have changed since they were read.
    async fn take(&self, queues: &BTreeSet<String>) -> sqlx::Result<Option<(Option<Taken>, Option<Timestamp>)>> {
        let mut looks = 0;
        loop {
            looks += 1;
            let Some(mut locked) = self.begin(queues).await? else { return Ok(None) };
            if locked.queues.is_empty() {
                locked.unit.done().await?;
                return Ok(Some((None, Some(locked.now.after(LOOK_AGAIN)))));
            }
            let marked = self.look_at_marked(&mut locked).await?;
            // The order is exact once every key that may start a job is known; the number of checks is limited
            // nevertheless.
            if marked.all || looks == LOOKS_MAX {
                return self.take_at(locked, queues, marked.opens_at).await;
            }
            locked.unit.done().await?;
        }
    }

    /// Locks the limits of queues, except those that another claim has locked.
    async fn begin(&self, queues: &BTreeSet<String>) -> sqlx::Result<Option<LockedQueues>> {
        let mut unit = self.store.sessions.several().await?;
        let names: Vec<&String> = queues.iter().collect();
        let free: Vec<String> = sqlx::query_scalar(*sql::LIMITS_LOCK).bind(&names).fetch_all(&mut *unit).await?;
        let begin = sqlx::query(*sql::LIMITS_BEGIN).bind(self.store.sessions.clock()).fetch_one(&mut *unit).await?;
        let locked = LockedQueues { unit, now: rows::instant(&begin, 0)?, queues: free.into_iter().collect() };
        if begin.try_get::<i64, _>(1)? != self.known.revision {
            // Ended here: a dropped transaction would hold the locks until its connection is used again.
            locked.unit.done().await?;
            return Ok(None);
        }
        Ok(Some(locked))
    }

    async fn take_at(
        &self,
        LockedQueues { mut unit, now, queues: free }: LockedQueues,
        wanted: &BTreeSet<String>,
        mut opens_at: Option<Timestamp>,
    ) -> sqlx::Result<Option<(Option<Taken>, Option<Timestamp>)>> {
        let mut choice = self.choice(&mut unit, &free, now).await?;
        let mut chosen = limiter::choose(&mut choice.queues, &mut choice.lines, self.request.limit);
        let places: Vec<ReadyKey> = chosen.iter().map(|(_, place)| *place).collect();
        let rows = self.take_places(&mut unit, &places, now).await?;
        // Only settings of another queue can have changed: changes of these queues wait for this transaction to end.
        let said = rows.first().map(|row| row.try_get::<i64, _>(18)).transpose()?;
        let unknown = said.is_some_and(|said| said != self.known.revision);
        let taken = rows.iter().map(|row| row.try_get(2)).collect::<sqlx::Result<Vec<Option<Uuid>>>>()?;
        let taken: HashSet<JobId> = taken.into_iter().flatten().map(job_id).collect();
        let (open, full) = self.chosen_keys(&choice, &chosen, &taken);
        chosen.retain(|(_, place)| taken.contains(&place.id));
        self.remember(&mut unit, &choice, &chosen, now).await?;
        close(&mut unit, &full).await?;
        opens_at = opens_at.into_iter().chain(look_at(&mut unit, self.known, &open, now).await?).min();
        let left =
            choice.lines.iter().filter(|line| !line.jobs.is_empty()).map(|line| choice.names[line.queue].as_str());
        opens_at = opens_at.into_iter().chain(self.opens_at(&mut unit, left.collect(), now).await?).min();
        unit.done().await?;
        if unknown {
            return Ok(None);
        }
        if free.len() < wanted.len() {
            opens_at = opens_at.into_iter().chain([now.after(LOOK_AGAIN)]).min();
        }
        let order: HashMap<JobId, usize> = places.iter().enumerate().map(|(place, one)| (one.id, place)).collect();
        let mut holds = take::holds(self.store, &rows)?;
        holds.sort_by_key(|hold| order.get(&hold.attempt.job));
        let next_run_at = self.store.outlook.learn(&rows)?;
        Ok(Some((Some(Taken { holds, next_run_at, opens_at: None }), opens_at)))
    }

    /// The keys of the chosen jobs: those to be checked again, and those whose limits are now reached.
    fn chosen_keys(
        &self,
        choice: &Candidates,
        chosen: &[(usize, ReadyKey)],
        taken: &HashSet<JobId>,
    ) -> (BTreeSet<QueueKey>, BTreeSet<QueueKey>) {
        let (mut open, mut full) = (BTreeSet::new(), BTreeSet::new());
        for (number, place) in chosen {
            let (line, Some(key)) = (&choice.lines[*number], &choice.keys[*number]) else { continue };
            let queue = &choice.names[line.queue];
            let key = (queue.clone(), key.clone());
            // Another transaction may have locked a chosen job; then the key's limit is not reached as planned.
            let as_planned = taken.contains(&place.id) && line.free == 0;
            if as_planned && self.known.limits(queue).key_rate.is_none() {
                full.insert(key);
            } else {
                open.insert(key);
            }
        }
        full.retain(|key| !open.contains(key));
        (open, full)
    }

    async fn look_at_marked(&self, LockedQueues { unit, now, queues }: &mut LockedQueues) -> sqlx::Result<Marked> {
        let names: Vec<&String> = queues.iter().collect();
        let query = sqlx::query(*sql::DUE_WAKEUPS).bind(At(*now)).bind(names).bind(LOOK_MAX_KEYS);
        let rows = query.fetch_all(&mut **unit).await?;
        let (mut keys, mut marks) = (BTreeSet::new(), HashMap::<String, i64>::new());
        for row in &rows {
            let key: QueueKey = (row.try_get(0)?, row.try_get(1)?);
            *marks.entry(key.0.clone()).or_default() += 1;
            keys.insert(key);
        }
        let opens_at = look_at(unit, self.known, &keys, *now).await?;
        let all = marks.values().all(|count| *count < LOOK_MAX_KEYS);
        Ok(Marked { all, opens_at: if all { opens_at } else { Some(*now) } })
    }

    async fn take_places(
        &self,
        connection: &mut PgConnection,
        places: &[ReadyKey],
        now: Timestamp,
    ) -> sqlx::Result<Vec<PgRow>> {
        let limited = self.lanes.iter().filter(|(queue, _)| self.known.guards(queue)).map(|(_, lane)| lane.number);
        let (store, request, look) = (self.store, self.request, self.look);
        let claim = ChosenClaim { store, request, look, revision: self.known.revision, limited: limited.collect() };
        claim.take(connection, places, Some(At(now))).await
    }

    /// Records the starts and turns that limits need, besides the running jobs.
    async fn remember(
        &self,
        connection: &mut PgConnection,
        choice: &Candidates,
        chosen: &[(usize, ReadyKey)],
        now: Timestamp,
    ) -> sqlx::Result<()> {
        let (mut starts, mut turns) = (BTreeMap::<(&str, &str), (Rate, i64)>::new(), BTreeMap::new());
        for (number, _) in chosen {
            let (line, key) = (&choice.lines[*number], choice.keys[*number].as_deref());
            let queue = choice.names[line.queue].as_str();
            let Some(limits) = self.known.limits.get(queue) else { continue };
            let rates = [(QUEUE, limits.rate), (key.unwrap_or(QUEUE), limits.key_rate.filter(|_| key.is_some()))];
            for (key, rate) in rates.into_iter().filter_map(|(key, rate)| Some((key, rate?))) {
                starts.entry((queue, key)).or_insert((rate, 0)).1 += 1;
            }
            if limits.fair {
                turns.insert((queue, key.unwrap_or(KEYLESS)), line.turn);
                turns.insert((queue, QUEUE), choice.queues[line.queue].clock);
            }
        }
        if !starts.is_empty() {
            sqlx::query(*sql::ADD_STARTS)
                .bind(starts.keys().map(|(queue, _)| *queue).collect::<Vec<_>>())
                .bind(starts.keys().map(|(_, key)| *key).collect::<Vec<_>>())
                .bind(starts.values().map(|(rate, _)| At(rate.moment(now))).collect::<Vec<_>>())
                .bind(starts.values().map(|(_, count)| *count).collect::<Vec<_>>())
                .bind(starts.values().map(|(rate, _)| At(rate.horizon(now))).collect::<Vec<_>>())
                .execute(&mut *connection)
                .await?;
        }
        if !turns.is_empty() {
            sqlx::query(*sql::SAVE_TURNS)
                .bind(turns.keys().map(|(queue, _)| *queue).collect::<Vec<_>>())
                .bind(turns.keys().map(|(_, key)| *key).collect::<Vec<_>>())
                .bind(turns.values().map(|turn| *turn as i64).collect::<Vec<_>>())
                .execute(&mut *connection)
                .await?;
        }
        for ((queue, _), clock) in turns.iter().filter(|((_, key), _)| *key == QUEUE) {
            if limiter::begins_round(choice.clocks[choice.number(queue)], *clock) {
                let forget = sqlx::query(*sql::DELETE_OLD_TURNS).bind(*queue).bind(*clock as i64);
                forget.execute(&mut *connection).await?;
            }
        }
        Ok(())
    }

    /// When a rate next allows a start, for queues with more jobs.
    async fn opens_at(
        &self,
        connection: &mut PgConnection,
        queues: BTreeSet<&str>,
        now: Timestamp,
    ) -> sqlx::Result<Option<Timestamp>> {
        let rates = queues.iter().filter_map(|queue| Some((*queue, QUEUE, self.known.limits.get(*queue)?.rate?)));
        let rates: Vec<_> = rates.collect();
        let starts = starts(connection, &rates, now).await?;
        let times = rates.iter().zip(&starts).map(|((.., rate), starts)| rate.opens_at(starts, now));
        Ok(times.filter(|at| *at > now).min())
    }
}
