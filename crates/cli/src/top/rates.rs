//! Rates of jobs per second, computed from one snapshot to the next.

use std::{collections::VecDeque, time::Duration};

use punctual::Timestamp;
use serde::Serialize;

/// Number of steps kept: more than a screen has columns.
const STEPS_MAX: usize = 240;
/// The period that rates are averaged over.
const MINUTE: Duration = Duration::from_secs(60);

/// Cumulative counts at some instant. Only their differences have a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    /// Jobs in the store, including those marked as deleted.
    pub(crate) jobs: u64,
    /// Jobs marked as deleted.
    pub(crate) deleted: u64,
    /// Attempts that succeeded.
    pub(crate) succeeded: u64,
    /// Attempts that failed, timed out or were lost.
    pub(crate) failed: u64,
}

/// A kind of rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Enqueued,
    Succeeded,
    Failed,
}

/// The changes between two snapshots.
#[derive(Debug, Clone, Copy)]
struct Step {
    took: Duration,
    /// `None` while retention removes jobs: the number of new jobs then cannot be derived from the counts.
    enqueued: Option<u64>,
    succeeded: u64,
    failed: u64,
}

impl Step {
    fn between(before: (Timestamp, Totals), after: (Timestamp, Totals)) -> Option<Self> {
        let (took, (old, new)) = (after.0.since(before.0), (before.1, after.1));
        let purged = new.deleted < old.deleted;
        (!took.is_zero()).then(|| Self {
            took,
            enqueued: new.jobs.checked_sub(old.jobs).filter(|_| !purged),
            succeeded: new.succeeded.saturating_sub(old.succeeded),
            failed: new.failed.saturating_sub(old.failed),
        })
    }

    fn count(&self, flow: Flow) -> Option<u64> {
        match flow {
            Flow::Enqueued => self.enqueued,
            Flow::Succeeded => Some(self.succeeded),
            Flow::Failed => Some(self.failed),
        }
    }

    fn rate(&self, flow: Flow) -> Option<f64> {
        self.count(flow).map(|count| count as f64 / self.took.as_secs_f64())
    }
}

/// Jobs per second over the last minute; `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct PerSecond {
    enqueued: Option<f64>,
    succeeded: Option<f64>,
    failed: Option<f64>,
}

/// The rates of the last snapshots.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    last: Option<(Timestamp, Totals)>,
    /// Oldest first; `None` for a read that failed.
    steps: VecDeque<Option<Step>>,
}

impl Rates {
    /// Adds the counts of a snapshot.
    pub(crate) fn add(&mut self, at: Timestamp, totals: Totals) {
        let now = (at, totals);
        if let Some(step) = self.last.and_then(|last| Step::between(last, now)) {
            self.push(Some(step));
        }
        self.last = Some(now);
    }

    /// Records a failed read as a gap; the next step begins at the next snapshot.
    pub(crate) fn gap(&mut self) {
        self.last = None;
        self.push(None);
    }

    fn push(&mut self, step: Option<Step>) {
        if self.steps.len() == STEPS_MAX {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }

    /// The rate per second over the known steps of the last minute.
    pub(crate) fn per_second(&self, flow: Flow) -> Option<f64> {
        let (mut count, mut time) = (0, Duration::ZERO);
        for step in self.steps.iter().rev().flatten() {
            if let Some(more) = step.count(flow) {
                (count, time) = (count + more, time + step.took);
            }
            if time >= MINUTE {
                break;
            }
        }
        (!time.is_zero()).then(|| count as f64 / time.as_secs_f64())
    }

    /// All rates.
    pub(crate) fn all(&self) -> PerSecond {
        let [enqueued, succeeded, failed] =
            [Flow::Enqueued, Flow::Succeeded, Flow::Failed].map(|flow| self.per_second(flow).map(rounded));
        PerSecond { enqueued, succeeded, failed }
    }

    /// The rates of the last steps, at most `count`, oldest first.
    pub(crate) fn steps(&self, flow: Flow, count: usize) -> Vec<Option<f64>> {
        let from = self.steps.len().saturating_sub(count);
        self.steps.range(from..).map(|step| step.as_ref().and_then(|step| step.rate(flow))).collect()
    }
}

/// A rate with two decimals.
fn rounded(rate: f64) -> f64 {
    (100.0 * rate).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000).after(Duration::from_secs(seconds))
    }

    fn totals(jobs: u64, deleted: u64, succeeded: u64) -> Totals {
        Totals { jobs, deleted, succeeded, failed: 0 }
    }

    #[test]
    fn rates_are_an_average_of_the_last_minute() {
        let mut rates = Rates::default();
        assert_eq!(rates.per_second(Flow::Succeeded), None, "one snapshot has no rates");
        for second in 0..=100 {
            rates.add(at(second), totals(2 * second, 0, if second <= 40 { 1_000 * second } else { 40_000 }));
        }
        assert_eq!(rates.per_second(Flow::Enqueued), Some(2.0));
        assert_eq!(rates.per_second(Flow::Succeeded), Some(0.0), "what was before the minute is forgotten");
        assert_eq!(rates.steps(Flow::Enqueued, 3), [Some(2.0); 3]);
    }

    #[test]
    fn a_gap_stays_a_gap_and_unknown_rates_are_not_estimated() {
        let mut rates = Rates::default();
        rates.add(at(0), totals(10, 5, 0));
        rates.add(at(1), totals(14, 5, 0));
        rates.gap();
        rates.add(at(60), totals(500, 5, 0));
        rates.add(at(61), totals(510, 2, 7));
        assert_eq!(rates.all().succeeded, Some(3.5), "of seven jobs in two seconds");
        assert_eq!(rates.steps(Flow::Enqueued, 9), [Some(4.0), None, None]);
        assert_eq!(rates.steps(Flow::Succeeded, 9), [Some(0.0), None, Some(7.0)]);
        assert_eq!(rates.per_second(Flow::Enqueued), Some(4.0));
    }

    #[test]
    fn only_so_many_steps_are_kept() {
        let mut rates = Rates::default();
        (0..1_000).for_each(|second| rates.add(at(second), Totals::default()));
        assert_eq!(rates.steps(Flow::Failed, usize::MAX).len(), STEPS_MAX);
    }
}
