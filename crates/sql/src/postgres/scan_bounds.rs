//! What the claims of a process know of the store, and how thoroughly the next one looks.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use punctual_core::{NewJob, Timestamp};
use sqlx::postgres::PgRow;
use tokio::time::Instant;

use super::{
    backoff::{Backoff, Turn},
    core::Core,
    lanes::{Place, SLACK},
    rows,
};

/// How often an idle claim looks, without a hint.
pub(crate) const POLL: Duration = Duration::from_millis(250);
/// The same where no hints come from other processes.
pub(crate) const POLL_WITHOUT_HINTS: Duration = Duration::from_millis(25);

/// What the claims of a process know of the store.
#[derive(Debug)]
pub(crate) struct ScanBounds {
    state: Mutex<ScanState>,
    /// Looks at everything from the beginning, at what may have come late, and at all leases.
    full_looks: Backoff,
    late_looks: Backoff,
    pub(crate) lease_looks: Backoff,
}

#[derive(Debug)]
pub(crate) struct ScanState {
    /// When the next job is due, as far as known.
    pub(crate) next_run_at: Option<Timestamp>,
    /// When that was asked for.
    asked: Option<Instant>,
    /// No job is due and no lease has run out before, as far as known.
    pub(crate) due_bound: Timestamp,
    pub(crate) lease_bound: Timestamp,
}

impl ScanBounds {
    pub(crate) fn new() -> Self {
        let (min, short, long) = (Timestamp::MIN, Duration::from_millis(100), Duration::from_secs(30));
        Self {
            state: Mutex::new(ScanState { next_run_at: None, asked: None, due_bound: min, lease_bound: min }),
            full_looks: Backoff::new(30, (short, long)),
            late_looks: Backoff::new(30, (Duration::ZERO, Duration::from_secs(1))),
            lease_looks: Backoff::new(30, (Duration::ZERO, long)),
        }
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, ScanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something may be due.
    pub(crate) fn may_be_due(&self, now: Timestamp) -> bool {
        let state = self.lock();
        state.asked.is_none_or(|asked| asked.elapsed() > POLL) || state.next_run_at.is_some_and(|due| due <= now)
    }

    /// Everything up to then has been made queued, but for what comes late.
    pub(crate) fn promoted(&self, until: Timestamp) {
        self.lock().due_bound = until.before(SLACK);
    }

    /// What the rows of a claim say of the next job's time.
    pub(crate) fn learn(&self, rows: &[PgRow]) -> sqlx::Result<Option<Timestamp>> {
        let next_run_at = rows.first().map(|row| rows::optional_instant(row, 1)).transpose()?.flatten();
        self.know(next_run_at);
        Ok(next_run_at)
    }

    /// The next job is due then.
    pub(crate) fn know(&self, next_run_at: Option<Timestamp>) {
        let mut state = self.lock();
        state.next_run_at = next_run_at;
        state.asked = Some(Instant::now());
    }

    /// Something was scheduled that may be due before what is known, or what is known to be next may have gone.
    pub(crate) fn changed(&self) {
        self.lock().asked = None;
    }

    /// The same, if any of these has to wait for its time.
    pub(crate) fn scheduled_all(&self, jobs: &[NewJob]) {
        if jobs.iter().any(|job| job.spec.unique().updates()) {
            self.changed();
        }
        let Some(first) = jobs.iter().filter_map(|job| Some(job.id.timestamp().after(job.delay?))).min() else {
            return;
        };
        let mut state = self.lock();
        state.asked = None;
        state.due_bound = state.due_bound.min(first);
    }
}

/// How thoroughly a claim looks for jobs.
pub(crate) enum Look<'a> {
    /// From where the last one ended.
    Near,
    /// From a moment before: a transaction that began earlier may have ended later.
    Late(#[expect(dead_code, reason = "held for as long as it takes")] Turn<'a>),
    /// From the beginning of everything.
    Full(#[expect(dead_code, reason = "held for as long as it takes")] Turn<'a>),
}

impl<'a> Look<'a> {
    pub(crate) fn begin(store: &'a Core) -> Self {
        let late = || store.outlook.late_looks.begin().map_or(Self::Near, Self::Late);
        store.outlook.full_looks.begin().map_or_else(late, Self::Full)
    }

    pub(crate) const fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Where to begin in a lane.
    pub(crate) fn lane_bound(&self, bound: Place) -> Place {
        match self {
            Self::Near => bound,
            Self::Late(_) => Place::at(bound.run_at.before(SLACK)),
            Self::Full(_) => Place::FIRST,
        }
    }

    /// Where to begin among the jobs that wait for their time.
    pub(crate) fn due_bound(&self, store: &Core) -> Timestamp {
        if self.is_full() { Timestamp::MIN } else { store.outlook.lock().due_bound }
    }
}
