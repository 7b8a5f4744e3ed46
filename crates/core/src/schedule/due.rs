//! Decides which occurrences of a schedule are to be enqueued. The only place that implements misfires and overlaps.

use std::time::Duration;

use super::{Misfire, Overlap, Schedule, Timing};
use crate::Timestamp;

/// How far ahead of their time occurrences are enqueued, so that their jobs start on time even if there are many.
/// Schedules that must check the previous job are enqueued when they are due.
pub const AHEAD: Duration = Duration::from_secs(1);

/// A schedule whose next occurrence is overdue by more than this has misfired: no process enqueued it in time.
pub const MISFIRE_GRACE: Duration = Duration::from_secs(60);

/// The result of evaluating a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The occurrences to enqueue, in order.
    pub occurrences: Vec<Timestamp>,
    /// Whether the job of the previous occurrence is to be cancelled.
    pub cancel_previous: bool,
    /// Whether occurrences were skipped because no process enqueued them in time.
    pub misfired: bool,
    /// Whether occurrences were skipped because of the previous one.
    pub skipped: bool,
    /// The next occurrence after those.
    pub next_run_at: Option<Timestamp>,
}

/// The time from which a schedule whose next occurrence is at `next_run_at` is to be evaluated.
pub fn evaluation_time(overlap: Overlap, next_run_at: Timestamp) -> Timestamp {
    if overlap == Overlap::Allow { next_run_at.before(AHEAD) } else { next_run_at }
}

/// Decides which occurrences are to be enqueued at `now`. `busy` means that the job of the previous one is unfinished.
/// Fails with the reason if the schedule cannot be evaluated.
pub fn due(schedule: &Schedule, now: Timestamp, busy: bool) -> Result<Option<Due>, String> {
    let Some(first) = schedule.next_run_at else { return Ok(None) };
    let (spec, timing) = (&schedule.spec, schedule.spec.timing().map_err(|invalid| invalid.to_string())?);
    if evaluation_time(spec.overlap, first) > now {
        return Ok(None);
    }
    let misfired = now.since(first) > MISFIRE_GRACE;
    let (mut occurrences, next_run_at) = match (misfired, spec.misfire) {
        (false, _) => in_time(&timing, first, if spec.overlap == Overlap::Allow { now.after(AHEAD) } else { now })?,
        (true, Misfire::Ignore) => (Vec::new(), timing.next(now)?),
        (true, Misfire::RunOnce) => (latest(&timing, first, now, 1)?, timing.next(now)?),
        (true, Misfire::CatchUpLimited(most)) => (latest(&timing, first, now, most as usize)?, timing.next(now)?),
    };
    let found = occurrences.len();
    if spec.overlap != Overlap::Allow {
        // Of several occurrences, the last would skip or cancel all others.
        occurrences.drain(..found.saturating_sub(1));
    }
    if spec.overlap == Overlap::Skip && busy {
        occurrences.clear();
    }
    let cancel_previous = spec.overlap == Overlap::CancelPrevious && busy && !occurrences.is_empty();
    Ok(Some(Due { skipped: occurrences.len() < found, occurrences, cancel_previous, misfired, next_run_at }))
}

/// All occurrences from `first` to `until`, and the next one after them.
fn in_time(timing: &Timing, first: Timestamp, until: Timestamp) -> Result<(Vec<Timestamp>, Option<Timestamp>), String> {
    let (mut occurrences, mut next) = (Vec::new(), Some(first));
    while let Some(at) = next
        && at <= until
    {
        occurrences.push(at);
        next = timing.next(at)?;
    }
    Ok((occurrences, next))
}

/// The last occurrences from `first` to `now`, at most `limit`, in order.
fn latest(timing: &Timing, first: Timestamp, now: Timestamp, limit: usize) -> Result<Vec<Timestamp>, String> {
    let (mut occurrences, mut from) = (Vec::new(), now);
    while occurrences.len() < limit
        && let Some(at) = timing.last(from)?
        && at >= first
    {
        occurrences.push(at);
        from = at.before(Duration::from_micros(1));
    }
    occurrences.reverse();
    Ok(occurrences)
}
