//! The operations of the primary store that a dispatcher needs; see [`punctual_core::dispatch`].

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use punctual_core::{
    ClaimRequest, Claimed, JobId, NewJob, Settlement, StoreResult, Timestamp, Watch,
    dispatch::{
        DispatchedQueue, Dispatching, GRACE, Hint, Lane, PrimaryStore, Reachability, ServedLanes, Start, Stored,
    },
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    claim::{
        self, Source, promote,
        ready_keys::{self, hints},
        take::ReadyKey,
    },
    core::Core,
    rows,
    session::Patience,
    settle, statements as sql,
    store::PostgresStore,
    value::{At, Uuid, job_id, uuid},
};

async fn begin(store: &Core, starts: &[Start]) -> sqlx::Result<Vec<bool>> {
    // Sorted the same way everywhere, so that two batches never deadlock.
    let mut ordered: Vec<&Start> = starts.iter().collect();
    ordered.sort_unstable_by_key(|start| start.hint.job);
    let (lanes, times, ids) = ready_keys::columns(store, ordered.iter().map(|start| &start.hint));
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
    let begun: HashSet<JobId> = rows.iter().map(|row| row.try_get(0).map(job_id)).collect::<sqlx::Result<_>>()?;
    let refused: Vec<&Start> = ordered.into_iter().filter(|start| !begun.contains(&start.hint.job)).collect();
    if !refused.is_empty() {
        log_refused(store, &mut unit, &refused).await?;
    }
    unit.done().await?;
    Ok(starts.iter().map(|start| begun.contains(&start.hint.job)).collect())
}

/// Writes executions that do not count to their jobs' logs, since the handlers did start.
async fn log_refused(store: &Core, connection: &mut PgConnection, refused: &[&Start]) -> sqlx::Result<()> {
    let line = |start: &&Start| {
        let Start { worker, started_at, .. } = start;
        format!("{worker} started the job at {started_at}; it was changed before that was recorded (it is now ")
    };
    sqlx::query(*sql::BEGIN_REFUSED)
        .bind(store.sessions.clock())
        .bind(refused.iter().map(|start| uuid(start.hint.job)).collect::<Vec<_>>())
        .bind(refused.iter().map(|start| At(start.hint.job.timestamp())).collect::<Vec<_>>())
        .bind(refused.iter().map(|start| Uuid::from_u128(start.worker.to_bits())).collect::<Vec<_>>())
        .bind(refused.iter().map(line).collect::<Vec<_>>())
        .execute(connection)
        .await
        .map(drop)
}

async fn undispatched(store: &Core, until: Timestamp, limit: usize) -> sqlx::Result<Vec<Hint>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::UNDISPATCHED).bind(At(until)).bind(limit as i64).fetch_all(&mut *unit).await?;
    let keys = rows.iter().map(ready_keys::read).collect::<sqlx::Result<Vec<_>>>()?;
    if keys.iter().any(|key| store.lanes.lane(key.lane).is_none()) {
        store.lanes.refresh(&mut unit).await?;
    }
    // The dispatcher hands out neither jobs with a key nor suspects.
    let (plain, others): (Vec<ReadyKey>, Vec<ReadyKey>) =
        keys.into_iter().partition(|key| store.lanes.shared(key.lane).is_some());
    if !others.is_empty() {
        mark_keys(&mut unit, &others).await?;
    }
    unit.done().await?;
    Ok(hints(store, &plain))
}

/// Marks jobs as dispatched.
async fn mark_keys(connection: &mut PgConnection, keys: &[ReadyKey]) -> sqlx::Result<usize> {
    sqlx::query_scalar::<_, i64>(*sql::MARK_DISPATCHED)
        .bind(keys.iter().map(|key| key.lane).collect::<Vec<_>>())
        .bind(keys.iter().map(|key| At(key.run_at)).collect::<Vec<_>>())
        .bind(keys.iter().map(|key| uuid(key.id)).collect::<Vec<_>>())
        .fetch_one(connection)
        .await
        .map(|count| count as usize)
}

async fn mark_dispatched(store: &Core, hints: &[Hint]) -> sqlx::Result<usize> {
    let numbers = store.lanes.plain(hints.iter().map(|hint| &*hint.lane));
    let key = |(hint, lane): (&Hint, Option<i32>)| Some(ReadyKey { lane: lane?, run_at: hint.run_at, id: hint.job });
    let keys: Vec<ReadyKey> = hints.iter().zip(numbers).filter_map(key).collect();
    let mut unit = store.sessions.single().await?;
    let marked = mark_keys(&mut unit, &keys).await?;
    unit.done().await?;
    Ok(marked)
}

/// How long after a claiming process could not reach the dispatcher only other claiming processes extend its lease.
const UNREACHABLE_PERIOD: Duration = Duration::from_secs(5);

/// Records whether this process could reach the dispatcher.
async fn record_reachability(connection: &mut PgConnection, reachability: Reachability) -> sqlx::Result<()> {
    match reachability {
        Reachability::Unknown => Ok(()),
        Reachability::Unreachable => sqlx::query(*sql::DISPATCH_UNREACHABLE).execute(connection).await.map(drop),
        Reachability::Reachable { prolong, claims } => {
            let query = sqlx::query_scalar(*sql::DISPATCH_EXTEND).bind(prolong.as_micros() as i64);
            let query = query.bind(GRACE.as_micros() as i64).bind(claims).bind(UNREACHABLE_PERIOD.as_micros() as i64);
            let lapsed: Option<bool> = query.fetch_optional(&mut *connection).await?;
            if lapsed == Some(true) {
                sqlx::query(*sql::DISPATCH_GIVE_ALL).execute(connection).await?;
            }
            Ok(())
        }
    }
}

/// The row of the dispatcher, and those of its queues.
async fn dispatch_rows(connection: &mut PgConnection, reachability: Reachability) -> sqlx::Result<(PgRow, Vec<PgRow>)> {
    record_reachability(connection, reachability).await?;
    let row = sqlx::query(*sql::DISPATCH).fetch_one(&mut *connection).await?;
    Ok((row, sqlx::query(*sql::DISPATCH_QUEUES).fetch_all(connection).await?))
}

async fn dispatching(store: &Core, reachability: Reachability) -> sqlx::Result<Dispatching> {
    let mut unit = store.sessions.several().await?;
    let rows = dispatch_rows(&mut unit, reachability).await;
    let (row, queues) = unit.ended(rows).await?;
    let micros =
        |row: &PgRow, column| row.try_get::<i64, _>(column).map(|left| Duration::from_micros(left.max(0) as u64));
    let queue = |row: &PgRow| {
        Ok(DispatchedQueue {
            queue: row.try_get(0)?,
            epoch: row.try_get::<i64, _>(1)? as u64,
            opens_in: micros(row, 2)?,
            opened: row.try_get::<Option<i64>, _>(3)?.map(|since| Duration::from_micros(since.max(0) as u64)),
            loaded: row.try_get(4)?,
        })
    };
    Ok(Dispatching {
        store_id: format!("{:08x}-{}", row.try_get::<Uuid, _>(2)?.as_u128() >> 96, store.database),
        server_run: row.try_get::<i64, _>(4)?.to_string(),
        missed: row
            .try_get::<Option<i64>, _>(3)?
            .map(|ago| Duration::from_micros(ago.max(0) as u64))
            .filter(|ago| *ago < UNREACHABLE_PERIOD),
        left: micros(&row, 0)?,
        due_until: rows::optional_instant(&row, 1)?,
        queues: queues.iter().map(queue).collect::<sqlx::Result<_>>()?,
    })
}

/// Executes a statement about a queue and its epoch; returns whether it changed a row.
async fn of_queue(store: &Core, text: &'static str, queue: &str, epoch: u64) -> sqlx::Result<bool> {
    let mut unit = store.sessions.single().await?;
    let done = sqlx::query(text).bind(queue).bind(epoch as i64).execute(&mut *unit).await?;
    unit.done().await?;
    Ok(done.rows_affected() > 0)
}

#[async_trait]
impl PrimaryStore for PostgresStore {
    async fn store(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Stored>> {
        self.store_jobs(jobs).await
    }

    fn lanes(&self, request: &ClaimRequest) -> ServedLanes {
        let queues = self.core.queues.known();
        let (plain, limited) = self.core.lanes.served(request, &queues);
        let plain = plain.iter().filter_map(|lane| Some((self.core.lanes.shared(lane.number)?, lane.rank as u32)));
        ServedLanes { plain: plain.collect(), limited: !limited.is_empty() }
    }

    async fn reload(&self) -> StoreResult<()> {
        let refresh = async {
            let mut unit = self.core.sessions.single().await?;
            self.core.lanes.refresh(&mut unit).await?;
            self.core.queues.refresh(&mut unit).await?;
            unit.done().await
        };
        self.answer(Patience::Short, refresh).await
    }

    async fn take(&self, request: ClaimRequest, hints: Vec<Hint>) -> StoreResult<Claimed> {
        let mut claimed = claim::claim_now(&self.core, &request, Source::Hints(hints.clone())).await?;
        let (now, ours) = (self.core.clock_now(), |hint: &Hint, claimed: &Claimed| {
            claimed.claims.iter().any(|claim| claim.job.id == hint.job)
        });
        let missed: Vec<Hint> = hints.into_iter().filter(|hint| hint.run_at <= now && !ours(hint, &claimed)).collect();
        let room = request.limit - claimed.claims.len();
        // The jobs may still be unpromoted although they are due: another process has scheduled them at short notice.
        if room > 0 && !missed.is_empty() && promote::promote_since_last(&self.core).await? > 0 {
            let rest = ClaimRequest { limit: room, ..request };
            let more = claim::claim_now(&self.core, &rest, Source::Hints(missed)).await?;
            claimed.claims.extend(more.claims);
            (claimed.next_run_at, claimed.opens_at) = (more.next_run_at, more.opens_at);
        }
        Ok(claimed)
    }

    async fn begin(&self, starts: Vec<Start>) -> StoreResult<Vec<bool>> {
        self.answer(Patience::Short, begin(&self.core, &starts)).await
    }

    async fn finish(&self, ends: Vec<(Start, Settlement)>) -> StoreResult<Vec<bool>> {
        self.core.sessions.within(Patience::Short, settle::finish(&self.core, &ends)).await
    }

    async fn queued(
        &self,
        lane: &Lane,
        after: Option<(Timestamp, JobId)>,
        before: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Hint>> {
        let Some((number, lane)) =
            self.core.lanes.plain([lane])[0].and_then(|number| Some((number, self.core.lanes.shared(number)?)))
        else {
            return Ok(Vec::new());
        };
        let (run_at, job) = after.unwrap_or((Timestamp::MIN, JobId::from_bits(0)));
        let read = async {
            let mut unit = self.core.sessions.single().await?;
            let query = sqlx::query(*sql::QUEUED_IN_LANE)
                .bind(number)
                .bind(At(run_at))
                .bind(uuid(job))
                .bind(limit as i64)
                .bind(At(before));
            let rows = query.fetch_all(&mut *unit).await?;
            unit.done().await?;
            let hint = |row: &PgRow| {
                Ok(Hint { lane: Arc::clone(&lane), run_at: rows::instant(row, 0)?, job: job_id(row.try_get(1)?) })
            };
            rows.iter().map(hint).collect()
        };
        self.answer(Patience::Short, read).await
    }

    async fn check_hints(&self, hints: Vec<Hint>) -> StoreResult<Vec<bool>> {
        let (lanes, times, ids) = ready_keys::columns(&self.core, hints.iter());
        let read = async {
            let mut unit = self.core.sessions.single().await?;
            let query = sqlx::query_scalar(*sql::STAND_IN_PLACES).bind(lanes).bind(times).bind(ids);
            let queued = query.fetch_all(&mut *unit).await?;
            unit.done().await?;
            Ok(queued)
        };
        self.answer(Patience::Short, read).await
    }

    fn watch_work(&self) -> Box<dyn Watch> {
        Box::new(self.core.hints.work.listen())
    }

    async fn undispatched(&self, until: Timestamp, limit: usize) -> StoreResult<Vec<Hint>> {
        self.answer(Patience::Short, undispatched(&self.core, until, limit)).await
    }

    async fn mark_dispatched(&self, hints: Vec<Hint>) -> StoreResult<usize> {
        self.answer(Patience::Short, mark_dispatched(&self.core, &hints)).await
    }

    async fn due(
        &self,
        queue: Option<&str>,
        after: (Timestamp, JobId),
        until: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Hint>> {
        let read = async {
            let mut unit = self.core.sessions.single().await?;
            self.core.lanes.refresh(&mut unit).await?;
            let query = sqlx::query(*sql::DUE_BETWEEN).bind(At(after.0)).bind(uuid(after.1)).bind(At(until));
            let rows = query.bind(limit as i64).bind(self.core.lanes.dispatched(queue)).fetch_all(&mut *unit).await?;
            unit.done().await?;
            Ok(hints(&self.core, &rows.iter().map(ready_keys::read).collect::<sqlx::Result<Vec<_>>>()?))
        };
        self.answer(Patience::Short, read).await
    }

    async fn promote_due(&self) -> StoreResult<Option<Timestamp>> {
        self.core.sessions.within(Patience::Short, promote::promote_due(&self.core)).await
    }

    async fn mark_due_dispatched(&self, before: Option<Timestamp>, until: Timestamp) -> StoreResult<()> {
        let write = async {
            let mut unit = self.core.sessions.single().await?;
            sqlx::query(*sql::DISPATCH_DUE).bind(before.map(At)).bind(At(until)).execute(&mut *unit).await?;
            unit.done().await
        };
        self.answer(Patience::Short, write).await
    }

    async fn dispatching(&self, reachability: Reachability) -> StoreResult<Dispatching> {
        self.answer(Patience::Short, dispatching(&self.core, reachability)).await
    }

    async fn give(&self, queue: String, epoch: u64, pause: Duration) -> StoreResult<()> {
        let give = async {
            let mut unit = self.core.sessions.single().await?;
            let query = sqlx::query(*sql::DISPATCH_GIVE).bind(queue).bind(epoch as i64);
            query.bind(pause.as_micros() as i64).execute(&mut *unit).await?;
            unit.done().await
        };
        self.answer(Patience::Short, give).await
    }

    async fn open(&self, queue: String, epoch: u64) -> StoreResult<bool> {
        self.answer(Patience::Short, of_queue(&self.core, *sql::DISPATCH_OPEN, &queue, epoch)).await
    }

    async fn opened(&self, queue: String, epoch: u64) -> StoreResult<()> {
        self.answer(Patience::Short, of_queue(&self.core, *sql::DISPATCH_OPENED, &queue, epoch)).await.map(drop)
    }
}
