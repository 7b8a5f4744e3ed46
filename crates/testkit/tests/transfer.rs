//! A transfer reads long histories a few at a time.

#![allow(clippy::unwrap_used)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use punctual_core::{
    Changes, Count, Filter, History, Job, JobId, JobPage, LogLine, Page, Pending, StoreResult, Timestamp,
    measure::Rollup,
    store::{Layer, PassOn, ports::*},
    transfer,
};
use punctual_testkit::{Fixture, ModelStore};

/// Counts the histories that are read: the most by one call, and all.
#[derive(Debug)]
struct CountingStore {
    inner: Arc<dyn Store>,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl Layer for CountingStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn around<T: Send>(
        &self,
        _: &'static str,
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        call.await
    }
}

impl PassOn<dyn JobStore> for CountingStore {}
impl PassOn<dyn ClaimStore> for CountingStore {}
impl PassOn<dyn LeaseStore> for CountingStore {}
impl PassOn<dyn FlowStore> for CountingStore {}
impl PassOn<dyn ScheduleStore> for CountingStore {}
impl PassOn<dyn QueueStore> for CountingStore {}
impl PassOn<dyn WorkerStore> for CountingStore {}
impl PassOn<dyn LockStore> for CountingStore {}
impl PassOn<dyn NotificationStore> for CountingStore {}
impl PassOn<dyn TokenStore> for CountingStore {}
impl PassOn<dyn TransferStore> for CountingStore {}
impl PassOn<dyn RetentionStore> for CountingStore {}
impl PassOn<dyn EngineStore> for CountingStore {}

#[async_trait]
impl JobReader for CountingStore {
    async fn get(&self, id: JobId) -> StoreResult<Option<Job>> {
        self.inner.get(id).await
    }

    async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage> {
        self.inner.list(filter, page).await
    }

    async fn histories(&self, jobs: Vec<JobId>) -> StoreResult<Vec<History>> {
        self.most.fetch_max(jobs.len(), Ordering::Relaxed);
        self.all.fetch_add(jobs.len(), Ordering::Relaxed);
        self.inner.histories(jobs).await
    }

    async fn changes(&self, since: Option<String>, limit: usize) -> StoreResult<Changes> {
        self.inner.changes(since, limit).await
    }

    async fn logs(&self, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>> {
        self.inner.logs(job, limit).await
    }

    async fn counts(&self) -> StoreResult<Vec<Count>> {
        self.inner.counts().await
    }

    async fn pending_by_user(&self, limit: usize) -> StoreResult<Vec<Pending>> {
        self.inner.pending_by_user(limit).await
    }

    async fn dead_by_name(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>> {
        self.inner.dead_by_name(since, until).await
    }

    async fn rollups(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Rollup>> {
        self.inner.rollups(since, until).await
    }
}

#[tokio::test]
async fn histories_are_read_sixteen_at_a_time() {
    let clock = Fixture::start();
    let fx = Fixture::new(ModelStore::new(clock.clone()), clock.clone());
    let ids = fx.enqueue_all((0..100).map(|_| fx.new_job(|_| ())).collect()).await;
    let from = CountingStore { inner: Arc::clone(&fx.store), most: AtomicUsize::new(0), all: AtomicUsize::new(0) };
    let to = ModelStore::new(clock);
    let done = transfer::transfer(&from, &to, |_| ()).await.unwrap();
    assert_eq!(done.jobs, 100);
    assert_eq!((from.most.into_inner(), from.all.into_inner()), (16, 100));
    for id in ids {
        assert_eq!(to.history(id).await.unwrap().events.len(), 1);
    }
}
