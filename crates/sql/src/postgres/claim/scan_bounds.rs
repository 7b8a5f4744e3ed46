//! Scan bounds: where the claims of a process begin to read, and how thorough the next claim is.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use punctual_core::{NewJob, Timestamp};
use sqlx::postgres::PgRow;
use tokio::time::Instant;

use super::{
    super::{
        backoff::{Backoff, Turn},
        rows,
    },
    lanes::{SLACK, ScanPosition},
};

/// The polling interval of an idle claim that receives no hint.
pub(crate) const POLL: Duration = Duration::from_millis(250);
/// The polling interval where hints from other processes are not received.
pub(crate) const POLL_WITHOUT_HINTS: Duration = Duration::from_millis(25);

/// State shared by the claims of a process.
#[derive(Debug)]
pub(crate) struct ScanBounds {
    state: Mutex<ScanState>,
    /// How often claims scan everything from the beginning, rows that may have committed late, and all leases.
    full_scans: Backoff,
    late_scans: Backoff,
    pub(crate) lease_scans: Backoff,
}

#[derive(Debug)]
pub(crate) struct ScanState {
    /// When the next job is due, if known.
    pub(crate) next_run_at: Option<Timestamp>,
    /// When `next_run_at` was read.
    read_at: Option<Instant>,
    /// The times before which no job is due and no lease has expired, as far as this process knows.
    pub(crate) due_bound: Timestamp,
    pub(crate) lease_bound: Timestamp,
}

impl ScanBounds {
    pub(crate) fn new() -> Self {
        let (min, short, long) = (Timestamp::MIN, Duration::from_millis(100), Duration::from_secs(30));
        Self {
            state: Mutex::new(ScanState { next_run_at: None, read_at: None, due_bound: min, lease_bound: min }),
            full_scans: Backoff::new(30, (short, long)),
            late_scans: Backoff::new(30, (Duration::ZERO, Duration::from_secs(1))),
            lease_scans: Backoff::new(30, (Duration::ZERO, long)),
        }
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, ScanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a job may be due.
    pub(crate) fn may_be_due(&self, now: Timestamp) -> bool {
        let state = self.lock();
        state.read_at.is_none_or(|at| at.elapsed() > POLL) || state.next_run_at.is_some_and(|due| due <= now)
    }

    /// Records that all jobs due by then were promoted, except those that commit late.
    pub(crate) fn promoted(&self, until: Timestamp) {
        self.lock().due_bound = until.before(SLACK);
    }

    /// Reads the time of the next due job from the rows of a claim.
    pub(crate) fn learn(&self, rows: &[PgRow]) -> sqlx::Result<Option<Timestamp>> {
        let next_run_at = rows.first().map(|row| rows::optional_instant(row, 1)).transpose()?.flatten();
        self.know(next_run_at);
        Ok(next_run_at)
    }

    /// Records the time of the next due job.
    pub(crate) fn know(&self, next_run_at: Option<Timestamp>) {
        let mut state = self.lock();
        state.next_run_at = next_run_at;
        state.read_at = Some(Instant::now());
    }

    /// Discards the known time of the next due job: an earlier one was scheduled, or that job may have been removed.
    pub(crate) fn changed(&self) {
        self.lock().read_at = None;
    }

    /// Does the same if any of these jobs is delayed or may change the time of another one.
    pub(crate) fn scheduled_all(&self, jobs: &[NewJob]) {
        if jobs.iter().any(|job| job.spec.unique().updates()) {
            self.changed();
        }
        let Some(first) = jobs.iter().filter_map(|job| Some(job.id.timestamp().after(job.delay?))).min() else {
            return;
        };
        let mut state = self.lock();
        state.read_at = None;
        state.due_bound = state.due_bound.min(first);
    }
}

/// How thoroughly a claim scans for jobs.
pub(crate) enum ScanMode<'a> {
    /// From the position where the previous claim ended.
    Near,
    /// From slightly before: a transaction that began earlier may have committed later.
    Late(#[expect(dead_code, reason = "held for as long as it takes")] Turn<'a>),
    /// From the beginning.
    Full(#[expect(dead_code, reason = "held for as long as it takes")] Turn<'a>),
}

impl<'a> ScanMode<'a> {
    pub(crate) fn begin(bounds: &'a ScanBounds) -> Self {
        let late = || bounds.late_scans.begin().map_or(Self::Near, Self::Late);
        bounds.full_scans.begin().map_or_else(late, Self::Full)
    }

    pub(crate) const fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Where to begin in a lane.
    pub(crate) fn lane_bound(&self, bound: ScanPosition) -> ScanPosition {
        match self {
            Self::Near => bound,
            Self::Late(_) => ScanPosition::at(bound.run_at.before(SLACK)),
            Self::Full(_) => ScanPosition::FIRST,
        }
    }

    /// Where to begin among the due jobs.
    pub(crate) fn due_bound(&self, bounds: &ScanBounds) -> Timestamp {
        if self.is_full() { Timestamp::MIN } else { bounds.lock().due_bound }
    }
}
