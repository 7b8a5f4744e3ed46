//! What a dispatcher needs of the jobs' owner. [`punctual_core::dispatch`] says what for.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use punctual_core::{
    ClaimRequest, Claimed, JobId, NewJob, Settlement, StoreResult, Timestamp,
    dispatch::{DispatchedQueue, Dispatching, GRACE, Hint, Lane, Ledger, ServedLanes, Start, Stored},
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    Core, PostgresStore, claim,
    claim::Source,
    enqueue,
    lanes::Served,
    queues::Known,
    rows, settle, statements as sql,
    take::Spot,
    value::{At, Uuid, job_id, uuid},
};

/// Whether a dispatcher hands out the jobs that pass no gate, or may have until lately.
pub(crate) async fn is_closed(store: &Core, queues: &Known) -> sqlx::Result<bool> {
    if !queues.dispatched {
        return Ok(false);
    }
    let mut unit = store.sessions.single().await?;
    let row = sqlx::query(*sql::DISPATCH).fetch_optional(&mut *unit).await?;
    unit.done().await?;
    let left: i64 = row.map(|row| row.try_get(0)).transpose()?.unwrap_or(i64::MIN);
    Ok(left > -(GRACE.as_micros() as i64))
}

/// The places of hinted jobs that are due, in lanes that the worker serves.
pub(crate) fn spots(store: &Core, hints: &[Hint], lanes: &[Served]) -> Vec<(Served, Spot)> {
    let now = store.clock_now();
    let served: HashMap<i32, Served> = lanes.iter().map(|lane| (lane.number, *lane)).collect();
    let numbers = store.lanes.plain(hints.iter().map(|hint| &*hint.lane));
    let due = hints.iter().zip(numbers).filter(|(hint, _)| hint.run_at <= now);
    let spot = |(hint, number): (&Hint, Option<i32>)| {
        let lane = *served.get(&number?)?;
        Some((lane, Spot { lane: lane.number, run_at: hint.run_at, id: hint.job }))
    };
    due.filter_map(spot).collect()
}

/// The columns of places: lanes, times and ids. No job is in a lane that is not known.
pub(crate) fn places<'a>(
    store: &Core,
    hints: impl Iterator<Item = &'a Hint> + Clone,
) -> (Vec<i32>, Vec<At>, Vec<Uuid>) {
    let numbers = store.lanes.plain(hints.clone().map(|hint| &*hint.lane));
    let lanes = numbers.into_iter().map(Option::unwrap_or_default).collect();
    let (times, ids) = hints.map(|hint| (At(hint.run_at), uuid(hint.job))).unzip();
    (lanes, times, ids)
}

async fn begin(store: &Core, starts: &[Start]) -> sqlx::Result<Vec<bool>> {
    // In one order everywhere, so that two batches never wait for each other.
    let mut ordered: Vec<&Start> = starts.iter().collect();
    ordered.sort_unstable_by_key(|start| start.hint.job);
    let (lanes, times, ids) = places(store, ordered.iter().map(|start| &start.hint));
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::BEGIN)
        .bind(store.sessions.clock())
        .bind(lanes)
        .bind(times)
        .bind(ids)
        .bind(ordered.iter().map(|start| At(start.started_at)).collect::<Vec<_>>())
        .bind(ordered.iter().map(|start| Uuid::from_u128(start.worker.to_bits())).collect::<Vec<_>>())
        .bind(ordered.iter().map(|start| start.lease.as_micros() as i64).collect::<Vec<_>>())
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let begun: Vec<JobId> = rows.iter().map(|row| row.try_get(0).map(job_id)).collect::<sqlx::Result<_>>()?;
    Ok(starts.iter().map(|start| begun.contains(&start.hint.job)).collect())
}

async fn untold(store: &Core, until: Timestamp, limit: usize) -> sqlx::Result<Vec<Hint>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::UNTOLD).bind(At(until)).bind(limit as i64).fetch_all(&mut *unit).await?;
    let hints = hints(store, &mut unit, &rows).await?;
    unit.done().await?;
    Ok(hints)
}

/// Rows of lanes, times and ids as hints.
async fn hints(store: &Core, connection: &mut PgConnection, rows: &[PgRow]) -> sqlx::Result<Vec<Hint>> {
    let (mut hints, mut looked) = (Vec::with_capacity(rows.len()), false);
    let mut last: Option<(i32, Arc<Lane>)> = None;
    for row in rows {
        let number: i32 = row.try_get(0)?;
        if last.as_ref().is_none_or(|(former, _)| *former != number) {
            if store.lanes.shared(number).is_none() && !std::mem::replace(&mut looked, true) {
                store.lanes.refresh(&mut *connection).await?;
            }
            last = store.lanes.shared(number).map(|lane| (number, lane));
        }
        if let Some((_, lane)) = &last {
            hints.push(Hint { lane: Arc::clone(lane), run_at: rows::instant(row, 1)?, job: job_id(row.try_get(2)?) });
        }
    }
    Ok(hints)
}

async fn told(store: &Core, hints: &[Hint]) -> sqlx::Result<()> {
    let mut ordered: Vec<&Hint> = hints.iter().collect();
    ordered.sort_unstable_by_key(|hint| hint.job);
    let (lanes, times, ids) = places(store, ordered.into_iter());
    let mut unit = store.sessions.single().await?;
    sqlx::query(*sql::TOLD).bind(lanes).bind(times).bind(ids).execute(&mut *unit).await?;
    unit.done().await
}

async fn dispatching(store: &Core, prolong: Option<Duration>, pause: Duration) -> sqlx::Result<Dispatching> {
    let mut unit = store.sessions.several().await?;
    if let Some(prolong) = prolong {
        let prolong = sqlx::query_scalar(*sql::DISPATCH_PROLONG).bind(prolong.as_micros() as i64);
        let lapsed: bool = prolong.bind(pause.as_micros() as i64).fetch_one(&mut *unit).await?;
        if lapsed {
            sqlx::query(*sql::DISPATCH_GIVE_ALL).execute(&mut *unit).await?;
        }
    }
    let row = sqlx::query(*sql::DISPATCH).fetch_optional(&mut *unit).await?;
    let queues = sqlx::query(*sql::DISPATCH_QUEUES).fetch_all(&mut *unit).await?;
    unit.done().await?;
    let micros =
        |row: &PgRow, column| row.try_get::<i64, _>(column).map(|left| Duration::from_micros(left.max(0) as u64));
    let queue = |row: &PgRow| {
        Ok(DispatchedQueue {
            queue: row.try_get(0)?,
            epoch: row.try_get::<i64, _>(1)? as u64,
            opens_in: micros(row, 2)?,
            opened: row.try_get(3)?,
            loaded: row.try_get(4)?,
        })
    };
    Ok(Dispatching {
        left: row.as_ref().map(|row| micros(row, 0)).transpose()?.unwrap_or_default(),
        due_until: row.as_ref().map(|row| rows::instant(row, 1)).transpose()?.unwrap_or(Timestamp::MIN),
        queues: queues.iter().map(queue).collect::<sqlx::Result<_>>()?,
    })
}

/// Executes a statement about a queue and its epoch; says whether it changed anything.
async fn of_queue(store: &Core, text: &'static str, queue: &str, epoch: u64) -> sqlx::Result<bool> {
    let mut unit = store.sessions.single().await?;
    let done = sqlx::query(text).bind(queue).bind(epoch as i64).execute(&mut *unit).await?;
    unit.done().await?;
    Ok(done.rows_affected() > 0)
}

#[async_trait]
impl Ledger for PostgresStore {
    async fn store(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Stored>> {
        // Who names a parent that is not there must not take others along; who may change other jobs holds them.
        if jobs.iter().any(|job| !job.parents.is_empty() || job.spec.unique().updates()) {
            return enqueue::enqueue(&self.core, &jobs, self.core.enqueuer_tells()).await;
        }
        self.enqueues.call(jobs).await
    }

    fn lanes(&self, request: &ClaimRequest) -> ServedLanes {
        let queues = self.core.queues.known();
        let (plain, gated) = self.core.lanes.served(request, &queues);
        let plain = plain.iter().filter_map(|lane| Some((self.core.lanes.shared(lane.number)?, lane.rank as u32)));
        ServedLanes { plain: plain.collect(), gated: !gated.is_empty() }
    }

    async fn look(&self) -> StoreResult<()> {
        let look = async {
            let mut unit = self.core.sessions.single().await?;
            self.core.lanes.refresh(&mut unit).await?;
            self.core.queues.refresh(&mut unit).await?;
            unit.done().await
        };
        self.told(look.await)
    }

    async fn take(&self, request: ClaimRequest, hints: Vec<Hint>) -> StoreResult<Claimed> {
        claim::claim_now(&self.core, &request, Source::Hints(hints)).await
    }

    async fn begin(&self, starts: Vec<Start>) -> StoreResult<Vec<bool>> {
        self.told(begin(&self.core, &starts).await)
    }

    async fn finish(&self, ends: Vec<(Start, Settlement)>) -> StoreResult<Vec<bool>> {
        settle::finish(&self.core, &ends).await
    }

    async fn queued(&self, lane: &Lane, after: Option<(Timestamp, JobId)>, limit: usize) -> StoreResult<Vec<Hint>> {
        let Some((number, lane)) =
            self.core.lanes.plain([lane])[0].and_then(|number| Some((number, self.core.lanes.shared(number)?)))
        else {
            return Ok(Vec::new());
        };
        let (run_at, job) = after.unwrap_or((Timestamp::MIN, JobId::from_bits(0)));
        let read = async {
            let mut unit = self.core.sessions.single().await?;
            let query = sqlx::query(*sql::QUEUED).bind(number).bind(At(run_at)).bind(uuid(job)).bind(limit as i64);
            let rows = query.fetch_all(&mut *unit).await?;
            unit.done().await?;
            let hint = |row: &PgRow| {
                Ok(Hint { lane: Arc::clone(&lane), run_at: rows::instant(row, 0)?, job: job_id(row.try_get(1)?) })
            };
            rows.iter().map(hint).collect()
        };
        self.told(read.await)
    }

    async fn untold(&self, until: Timestamp, limit: usize) -> StoreResult<Vec<Hint>> {
        self.told(untold(&self.core, until, limit).await)
    }

    async fn told(&self, hints: Vec<Hint>) -> StoreResult<()> {
        self.told(told(&self.core, &hints).await)
    }

    async fn due(&self, after: (Timestamp, JobId), until: Timestamp, limit: usize) -> StoreResult<Vec<Hint>> {
        let read = async {
            let mut unit = self.core.sessions.single().await?;
            let query = sqlx::query(*sql::DUE_BETWEEN).bind(At(after.0)).bind(uuid(after.1)).bind(At(until));
            let rows = query.bind(limit as i64).fetch_all(&mut *unit).await?;
            let hints = hints(&self.core, &mut unit, &rows).await?;
            unit.done().await?;
            Ok(hints)
        };
        self.told(read.await)
    }

    async fn told_due(&self, before: Timestamp, until: Timestamp) -> StoreResult<()> {
        let write = async {
            let mut unit = self.core.sessions.single().await?;
            sqlx::query(*sql::DISPATCH_DUE).bind(At(before)).bind(At(until)).execute(&mut *unit).await?;
            unit.done().await
        };
        self.told(write.await)
    }

    async fn dispatching(&self, prolong: Option<Duration>, pause: Duration) -> StoreResult<Dispatching> {
        self.told(dispatching(&self.core, prolong, pause).await)
    }

    async fn give(&self, queue: String, epoch: u64, pause: Duration) -> StoreResult<()> {
        let give = async {
            let mut unit = self.core.sessions.single().await?;
            let query = sqlx::query(*sql::DISPATCH_GIVE).bind(queue).bind(epoch as i64);
            query.bind(pause.as_micros() as i64).execute(&mut *unit).await?;
            unit.done().await
        };
        self.told(give.await)
    }

    async fn open(&self, queue: String, epoch: u64) -> StoreResult<bool> {
        self.told(of_queue(&self.core, *sql::DISPATCH_OPEN, &queue, epoch).await)
    }

    async fn opened(&self, queue: String, epoch: u64) -> StoreResult<()> {
        self.told(of_queue(&self.core, *sql::DISPATCH_OPENED, &queue, epoch).await.map(drop))
    }
}
