//! The store: opening it, claims that wait, and the ports.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::io::{AsyncRead, AsyncWrite};
use punctual_core::{Create, Offer};
use tokio::time::{self, Instant};

use super::{
    connection::{self, Patience},
    options::Options,
    rollups::Rollups,
    schema,
    session::Sessions,
};
use crate::{
    db::Db,
    ops::{
        claim,
        store::{names::*, store_by_operations},
        tx::Tx,
    },
    wakes::Wakes,
};

/// How often a waiting claim checks for jobs of other processes.
const POLL: Duration = Duration::from_millis(100);

/// Rollups of older hours are already merged.
const ROLLUPS_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A job store in SQL Server.
#[derive(Clone)]
pub struct SqlServerStore {
    options: Options,
    version: String,
    sessions: Arc<Sessions>,
    rollups: Arc<Rollups>,
    /// Notified of changes to jobs, of jobs to claim, and of claims that must stop waiting.
    jobs: Wakes,
    work: Wakes,
    claim_wakes: Wakes,
}

impl fmt::Debug for SqlServerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlServerStore({})", self.options.location)
    }
}

impl SqlServerStore {
    /// Connects, and migrates the schema.
    pub async fn open(options: Options) -> StoreResult<Self> {
        let sessions = Sessions::new(options.clone());
        let mut client = sessions.open(Patience::Long).await?;
        if options.create == Create::Nothing {
            schema::check_exists(&mut client, &options.location).await?;
        }
        schema::migrate(&mut client, &options.location).await?;
        let version = connection::version(&mut client, &options.location).await?;
        Ok(Self {
            options,
            version,
            sessions: Arc::new(sessions),
            rollups: Arc::default(),
            jobs: Wakes::new(),
            work: Wakes::new(),
            claim_wakes: Wakes::new(),
        })
    }

    async fn read<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&dyn Db) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        self.sessions.read(work).await
    }

    async fn write<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        self.write_as(false, work).await
    }

    async fn write_many<F, T>(&self, _: usize, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        self.write_as(true, work).await
    }

    async fn write_soon<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        self.write_as(true, work).await
    }

    /// Writes, with exclusive access if necessary.
    async fn write_as<F, T>(&self, beside: bool, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        let write = self.sessions.write(beside, work);
        // Operations with shared access are those that must finish before leases expire.
        let (done, effects) = if beside { self.sessions.in_time(write).await? } else { write.await? };
        if effects.new_work {
            self.work.wake();
        }
        if effects.jobs_changed {
            self.jobs.wake();
        }
        self.rollups.note();
        Ok(done)
    }

    /// Stores jobs within the caller's transaction, on the caller's connection to the same database: they exist if and
    /// only if that transaction commits. Workers notice within 100 ms.
    ///
    /// The jobs must have been validated, as the client's `enqueue_in` does.
    pub async fn enqueue_in<S>(&self, client: &mut tiberius::Client<S>, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        self.sessions.write_within(client, move |tx| enqueue::enqueue(tx, &jobs)).await
    }

    /// Settles executions within the caller's transaction, so that a handler's effects and the end of its job commit
    /// together. No other operation can write until that transaction ends.
    pub async fn settle_in<S>(
        &self,
        client: &mut tiberius::Client<S>,
        settlements: Vec<Settlement>,
    ) -> StoreResult<Vec<Settled>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let settle = move |tx: &mut Tx<'_>| {
            tx.job_db.be_alone()?;
            settle::settle(tx, &settlements)
        };
        self.sessions.write_within(client, settle).await
    }

    /// Whether there may be jobs to claim; checked without a lock.
    async fn may_claim(&self, ahead: Duration) -> StoreResult<bool> {
        self.sessions.in_time(self.sessions.peek(self.now().after(ahead))).await
    }

    /// One attempt to claim, on a task of its own, which releases the jobs if the caller has stopped waiting.
    async fn claim_now(&self, request: &ClaimRequest) -> StoreResult<(Claimed, Option<Timestamp>)> {
        let (caller, answer) = tokio::sync::oneshot::channel();
        let (own, request) = (self.clone(), request.clone());
        tokio::spawn(async move {
            let claimed = own
                .write_as(true, move |tx| {
                    let mut jobs = claim::claim(tx, &request)?;
                    if !jobs.is_read() {
                        jobs.read_within(tx)?;
                    }
                    Ok((jobs.claim_again_at, jobs.releases(), jobs.claimed()))
                })
                .await;
            let runtime = tokio::runtime::Handle::current();
            let release = move |unreceived: StoreResult<(Option<Timestamp>, Vec<Settlement>, Claimed)>| {
                let releases = unreceived.map(|(_, releases, _)| releases).unwrap_or_default();
                if !releases.is_empty() {
                    runtime.spawn(async move { own.settle(releases).await });
                }
            };
            // The caller may stop waiting before or after the result is sent.
            drop(caller.send(Offer::new(claimed, release)));
        });
        let (claim_again_at, _, claimed) = answer.await.ok().and_then(Offer::take).ok_or(StoreError::Closed)??;
        Ok((claimed, claim_again_at))
    }
}

impl SqlServerStore {
    /// Claims jobs, or waits for some up to the request's `wait`.
    async fn claim_or_wait(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        let deadline = Instant::now() + request.wait.min(punctual_core::limits::WAIT_MAX);
        let mut claim_wakes = self.claim_wakes.listen();
        loop {
            let mut work = self.work.listen();
            let (claimed, claim_again_at) = self.claim_now(&request).await?;
            if !claimed.claims.is_empty() || Instant::now() >= deadline {
                return Ok(claimed);
            }
            loop {
                let due = claim_again_at.map_or(POLL, |at| at.since(self.now()));
                let pause = POLL.min(due).min(deadline.saturating_duration_since(Instant::now()));
                tokio::select! {
                    () = work.changed() => break,
                    () = time::sleep(pause) => {}
                    () = claim_wakes.changed() => return Ok(claimed),
                }
                // Other processes may have enqueued jobs.
                if Instant::now() >= deadline || self.may_claim(request.ahead).await? {
                    break;
                }
            }
        }
    }
}

store_by_operations!(SqlServerStore);

#[async_trait]
impl EngineStore for SqlServerStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { engine: "sqlserver", version: self.version.clone(), location: self.options.location.clone() }
    }

    fn now(&self) -> Timestamp {
        self.options.clock.as_ref().map_or_else(|| self.sessions.now(), |clock| clock.now())
    }

    fn watch(&self) -> Box<dyn Watch> {
        Box::new(self.jobs.listen())
    }

    fn wake_claims(&self) {
        self.claim_wakes.wake();
    }

    async fn maintain(&self) -> StoreResult<()> {
        if !self.rollups.are_due() {
            return Ok(());
        }
        self.sessions.add_up(self.now().before(ROLLUPS_AGE_MAX)).await
    }

    async fn schema(&self) -> StoreResult<Schema> {
        schema::read(&mut self.sessions.open(Patience::Usual).await?, &self.options.location).await
    }

    async fn check(&self) -> StoreResult<Vec<Diagnostic>> {
        self.read(crate::ops::diagnostics::check).await
    }
}
