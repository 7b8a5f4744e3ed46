//! Samples of the recent past for charts: the counters are sampled every few seconds and kept for an hour; whole hours
//! are read from the store.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use punctual_client::Punctual;
use punctual_core::{
    AttemptStatus, StoreResult, Timestamp,
    measure::{Measure, Rollup, hour},
};
use tokio::sync::watch;

use crate::counter_cache::Counts;

/// Maximum number of samples that are kept.
const SAMPLES_MAX: usize = 360;
/// Queue depths are recorded every this many samples, and kept for a week.
const DEPTH_SAMPLES: u64 = 60;
const DEPTHS_MAX: usize = 1_008;
const HOUR: Duration = Duration::from_secs(3_600);
/// An hour is final, and its samples may be cached, this long after its end.
const LATE: Duration = HOUR;

/// The period that a chart covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
pub(crate) enum Range {
    #[serde(rename = "15m")]
    Quarter,
    #[default]
    #[serde(rename = "1h")]
    Hour,
    #[serde(rename = "24h")]
    Day,
    #[serde(rename = "7d")]
    Week,
}

impl Range {
    pub(crate) const ALL: [(Self, &'static str); 4] =
        [(Self::Quarter, "15m"), (Self::Hour, "1h"), (Self::Day, "24h"), (Self::Week, "7d")];

    pub(crate) const fn span(self) -> Duration {
        match self {
            Self::Quarter => Duration::from_secs(900),
            Self::Hour => HOUR,
            Self::Day => Duration::from_secs(24 * 3_600),
            Self::Week => Duration::from_secs(7 * 24 * 3_600),
        }
    }

    const fn step(self) -> Duration {
        match self {
            Self::Quarter => Duration::from_secs(10),
            Self::Hour => Duration::from_secs(60),
            Self::Day | Self::Week => HOUR,
        }
    }
}

/// Counts of one period of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    /// Length of the period.
    pub(crate) span: Duration,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) died: u64,
    /// Histograms of how late attempts started, and of how long they took: counts by bucket.
    pub(crate) late: BTreeMap<u16, u64>,
    pub(crate) took: BTreeMap<u16, u64>,
    /// The number of ready jobs, if known.
    pub(crate) ready: Option<u64>,
}

impl Sample {
    fn add(&mut self, measure: Measure, bucket: u16, count: u64) {
        match measure {
            Measure::Lateness => *self.late.entry(bucket).or_default() += count,
            Measure::Died => self.died += count,
            Measure::Ended(status) => {
                match status {
                    AttemptStatus::Succeeded => self.succeeded += count,
                    AttemptStatus::Failed | AttemptStatus::TimedOut => self.failed += count,
                    AttemptStatus::Lost => self.lost += count,
                    _ => return,
                }
                *self.took.entry(bucket).or_default() += count;
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.span += other.span;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.lost += other.lost;
        self.died += other.died;
        other.late.iter().for_each(|(bucket, count)| *self.late.entry(*bucket).or_default() += count);
        other.took.iter().for_each(|(bucket, count)| *self.took.entry(*bucket).or_default() += count);
        self.ready = other.ready.or(self.ready);
    }
}

/// Samples by queue; the key `None` is the sum of all queues.
type ByQueue = BTreeMap<Option<String>, Sample>;

/// The samples that charts are drawn from.
pub(crate) struct History {
    punctual: Punctual,
    state: Mutex<HistoryState>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct HistoryState {
    /// The previous counters, counted since the start of the server.
    last: Option<(Timestamp, Counts)>,
    samples: VecDeque<(Timestamp, ByQueue)>,
    depths: VecDeque<(Timestamp, BTreeMap<Option<String>, u64>)>,
    hours: BTreeMap<Timestamp, Arc<ByQueue>>,
    count: u64,
}

impl History {
    pub(crate) fn new(punctual: Punctual) -> Self {
        Self { punctual, state: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// A number that changes whenever the counts in the store have changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether a page waits for changes.
    pub(crate) fn is_watched(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    /// Notifies open pages of a change.
    pub(crate) fn notify(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    fn state(&self) -> MutexGuard<'_, HistoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Samples of a queue, or of all queues, in steps of equal length, each with the time of its end; `None` for steps
    /// without data.
    pub(crate) async fn samples(
        &self,
        range: Range,
        queue: Option<&str>,
    ) -> StoreResult<Vec<(Timestamp, Option<Sample>)>> {
        let now = self.punctual.store().now();
        match range {
            Range::Quarter | Range::Hour => Ok(self.recent(range, queue, now)),
            Range::Day | Range::Week => self.hourly(range, queue, now).await,
        }
    }

    fn recent(&self, range: Range, queue: Option<&str>, now: Timestamp) -> Vec<(Timestamp, Option<Sample>)> {
        let (from, step, state) = (now.before(range.span()), range.step(), self.state());
        let steps = (range.span().as_secs() / step.as_secs()) as u32;
        let of = |number: u32| {
            let (begin, end) = (from.after(step * number), from.after(step * (number + 1)));
            let samples = state.samples.iter().filter(|(at, _)| begin < *at && *at <= end);
            let mut found = None::<Sample>;
            for (_, by_queue) in samples {
                let sample = by_queue.get(&queue.map(str::to_owned));
                // The sample was taken but has nothing of this queue: its counts are zero.
                let quiet =
                    || Sample { span: by_queue.get(&None).map_or(Duration::ZERO, |all| all.span), ..Sample::default() };
                found.get_or_insert_default().merge(&sample.cloned().unwrap_or_else(quiet));
            }
            (end, found)
        };
        (0..steps).map(of).collect()
    }

    async fn hourly(
        &self,
        range: Range,
        queue: Option<&str>,
        now: Timestamp,
    ) -> StoreResult<Vec<(Timestamp, Option<Sample>)>> {
        let hours = range.span().as_secs() / HOUR.as_secs();
        let mut samples = Vec::new();
        for ago in (0..hours).rev() {
            let begin = hour(now.before(HOUR * ago as u32));
            let found = self.hour(begin, now).await?;
            let mut sample = found.get(&queue.map(str::to_owned)).cloned().unwrap_or_default();
            sample.span = now.since(begin).min(HOUR);
            sample.ready = self.depth_at(begin, queue);
            samples.push((begin.after(HOUR).min(now), Some(sample)));
        }
        Ok(samples)
    }

    /// The samples of one hour. Hours that are final are cached.
    async fn hour(&self, begin: Timestamp, now: Timestamp) -> StoreResult<Arc<ByQueue>> {
        if let Some(known) = self.state().hours.get(&begin) {
            return Ok(Arc::clone(known));
        }
        let mut found = ByQueue::new();
        for Rollup { queue, measure, bucket, count, .. } in
            self.punctual.store().rollups(begin, begin.after(HOUR)).await?
        {
            found.entry(None).or_default().add(measure, bucket, count);
            found.entry(Some(queue)).or_default().add(measure, bucket, count);
        }
        let found = Arc::new(found);
        if begin.after(HOUR).after(LATE) < now {
            let mut state = self.state();
            state.hours.insert(begin, Arc::clone(&found));
            let old = hour(now.before(Range::Week.span())).before(HOUR);
            state.hours.retain(|begin, _| *begin >= old);
        }
        Ok(found)
    }

    fn depth_at(&self, begin: Timestamp, queue: Option<&str>) -> Option<u64> {
        let (state, end) = (self.state(), begin.after(HOUR));
        let found = state.depths.iter().rev().find(|(at, _)| begin <= *at && *at < end)?;
        Some(found.1.get(&queue.map(str::to_owned)).copied().unwrap_or(0))
    }

    /// Records a sample: the difference between these counters and the previous ones.
    pub(crate) fn record(&self, now: Timestamp, counts: Counts, ready: &BTreeMap<Option<String>, u64>) {
        let mut state = self.state();
        let Some((before, last)) = state.last.replace((now, counts.clone())) else { return };
        let mut by_queue = ByQueue::new();
        for ((queue, _, measure, bucket), count) in counts {
            let key = (queue, String::new(), measure, bucket);
            let count = count.saturating_sub(last.get(&key).copied().unwrap_or(0));
            if count > 0 {
                by_queue.entry(None).or_default().add(measure, bucket, count);
                by_queue.entry(Some(key.0)).or_default().add(measure, bucket, count);
            }
        }
        by_queue.entry(None).or_default();
        for (queue, count) in ready {
            by_queue.entry(queue.clone()).or_default().ready = Some(*count);
        }
        by_queue.values_mut().for_each(|sample| sample.span = now.since(before));
        state.samples.push_back((now, by_queue));
        while state.samples.len() > SAMPLES_MAX {
            state.samples.pop_front();
        }
        if state.count.is_multiple_of(DEPTH_SAMPLES) {
            state.depths.push_back((now, ready.clone()));
            while state.depths.len() > DEPTHS_MAX {
                state.depths.pop_front();
            }
        }
        state.count += 1;
    }
}
