//! Wraps a store and adds a span and a latency measurement to every operation.

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use punctual_core::{
    AttemptId, Claim, ClaimRequest, Claimed, Settled, Settlement, Store, StoreResult, WorkerId,
    store::{self, Layer, PassOn, ports::*},
};
use tracing::Instrument as _;

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 14] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
/// Claims that wait for jobs are measured apart: their latency depends on the jobs, not on the store.
const WAITING_CLAIM: &str = "claim_wait";

/// Latencies of one store operation in this process, as a histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationLatency {
    /// Its name, such as `enqueue`; claims that wait for jobs are `claim_wait`.
    pub operation: &'static str,
    /// Upper bounds in seconds, ascending, each with the number of calls that took no longer.
    pub buckets: Vec<(f64, u64)>,
    /// Number of calls that were answered.
    pub count: u64,
    /// Total time of these calls.
    pub sum: Duration,
    /// Number of these calls that failed.
    pub errors: u64,
}

/// A store that measures another one.
#[derive(Debug)]
pub(crate) struct ObservedStore {
    inner: Arc<dyn Store>,
    latencies: HashMap<&'static str, Histogram>,
}

#[derive(Debug, Default)]
struct Histogram {
    /// One bucket per bound, and one for slower calls.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
    errors: AtomicU64,
}

impl ObservedStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        let names = store::operations().chain([WAITING_CLAIM]);
        Self { inner, latencies: names.map(|name| (name, Histogram::default())).collect() }
    }

    /// The latencies of all operations that were called, by name.
    pub(crate) fn latencies(&self) -> Vec<OperationLatency> {
        let mut all: Vec<_> = self.latencies.iter().map(|(name, histogram)| histogram.read(name)).collect();
        all.retain(|latency| latency.count > 0);
        all.sort_by_key(|latency| latency.operation);
        all
    }
}

impl Histogram {
    fn record(&self, took: Duration, failed: bool) {
        let bucket = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(took.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
        if failed {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self, operation: &'static str) -> OperationLatency {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(BOUNDS.len());
        for (index, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            buckets.extend(BOUNDS.get(index).map(|bound| (*bound, count)));
        }
        let sum = Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed));
        OperationLatency { operation, buckets, count, sum, errors: self.errors.load(Ordering::Relaxed) }
    }
}

impl Layer for ObservedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        let began = Instant::now();
        let answer = call.instrument(tracing::debug_span!("store", operation)).await;
        if let Some(histogram) = self.latencies.get(operation) {
            histogram.record(began.elapsed(), answer.is_err());
        }
        answer
    }
}

impl PassOn<dyn JobStore> for ObservedStore {}
impl PassOn<dyn LeaseStore> for ObservedStore {}
impl PassOn<dyn JobReader> for ObservedStore {}
impl PassOn<dyn FlowStore> for ObservedStore {}
impl PassOn<dyn ScheduleStore> for ObservedStore {}
impl PassOn<dyn QueueStore> for ObservedStore {}
impl PassOn<dyn WorkerStore> for ObservedStore {}
impl PassOn<dyn LockStore> for ObservedStore {}
impl PassOn<dyn NotificationStore> for ObservedStore {}
impl PassOn<dyn TokenStore> for ObservedStore {}
impl PassOn<dyn TransferStore> for ObservedStore {}
impl PassOn<dyn RetentionStore> for ObservedStore {}
impl PassOn<dyn EngineStore> for ObservedStore {}

#[async_trait]
impl ClaimStore for ObservedStore {
    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        let name = if request.wait.is_zero() { "claim" } else { WAITING_CLAIM };
        self.around(name, self.inner.claim(request)).await
    }

    async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.around("confirm", self.inner.confirm(worker, attempts)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        self.around("settle", self.inner.settle(settlements)).await
    }

    async fn share_claims(&self, attempts: Vec<AttemptId>) -> StoreResult<()> {
        self.around("share_claims", self.inner.share_claims(attempts)).await
    }

    async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>> {
        self.around("claims_of_dead", self.inner.claims_of_dead(worker, limit)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_all_that_is_not_slower() {
        let histogram = Histogram::default();
        for (micros, failed) in [(50, false), (300, false), (300, true), (60_000_000, false)] {
            histogram.record(Duration::from_micros(micros), failed);
        }
        let read = histogram.read("enqueue");
        let count_of = |bound: f64| read.buckets.iter().find(|(at, _)| *at == bound).map(|(_, count)| *count);
        assert_eq!(count_of(0.0001), Some(1));
        assert_eq!(count_of(0.0005), Some(3));
        assert_eq!(count_of(30.0), Some(3));
        assert_eq!(read.count, 4);
        assert_eq!(read.errors, 1);
        assert_eq!(read.sum, Duration::from_micros(60_000_650));
    }
}
