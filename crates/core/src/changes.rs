//! Events of jobs for consumers that poll: the events since an earlier read, and the cursor of the next read.

use std::{fmt, ops::Range};

use serde::Serialize;

use crate::{Event, JobId, Spec, StoreError, Timestamp, WorkflowId, limits};

/// The events since an earlier read.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// The events, ordered by time.
    pub events: Vec<JobEvent>,
    /// The cursor of the next read. Its format is private to the store.
    pub cursor: String,
    /// Whether events were skipped: there were more than the limit, or the cursor was too old.
    pub missed: bool,
}

impl Changes {
    /// No events.
    pub const fn none(cursor: String, missed: bool) -> Self {
        Self { events: Vec::new(), cursor, missed }
    }
}

/// An event of a job, with the properties that jobs are filtered by.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobEvent {
    /// Job ID.
    pub job: JobId,
    /// Queue of the job.
    pub queue: String,
    /// Name of the job.
    pub name: String,
    /// User on whose behalf the job runs.
    pub user_id: Option<String>,
    /// Correlation ID of the job.
    pub correlation_id: Option<String>,
    /// Workflow that the job is part of.
    pub workflow_id: Option<WorkflowId>,
    /// Tags of the job.
    pub tags: Vec<String>,
    /// Schedule that the job is an occurrence of.
    pub schedule: Option<String>,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

impl JobEvent {
    /// An event of a job whose specification is available.
    pub fn of(job: JobId, spec: &Spec, event: Event) -> Self {
        Self {
            job,
            queue: spec.queue.clone(),
            name: spec.name.clone(),
            user_id: spec.user_id.clone(),
            correlation_id: spec.correlation_id.clone(),
            workflow_id: spec.workflow_id,
            tags: spec.options.tags.clone(),
            schedule: spec.options.occurrence.as_ref().map(|occurrence| occurrence.schedule.clone()),
            event,
        }
    }
}

/// The cursor of a store that numbers its events: the number of the last event, and the time of the read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountCursor {
    /// The number of the last event.
    pub last: u64,
    /// The time of the read.
    pub at: Timestamp,
    /// Ranges of lower numbers for which no event was visible. With concurrent writers, such an event may still be
    /// committed.
    pub gaps: Vec<Gap>,
}

/// A range of numbers without events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The numbers.
    pub numbers: Range<u64>,
    /// When the gap was detected.
    pub since: Timestamp,
}

impl CountCursor {
    /// Parses a cursor.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let gap = |text: &str| {
            let mut parts = text.split('-');
            let (first, end) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Gap { numbers: first..end, since: Timestamp::from_micros(parts.next()?.parse().ok()?) })
        };
        let mut parts = text.split('.');
        let mut parsed = || {
            let (last, at) = (parts.next()?.parse().ok()?, Timestamp::from_micros(parts.next()?.parse().ok()?));
            let gaps = parts.next().map_or(Some(Vec::new()), |gaps| gaps.split('_').map(gap).collect())?;
            Some(Self { last, at, gaps })
        };
        parsed().filter(|_| parts.next().is_none()).ok_or_else(|| bad_cursor(text))
    }

    /// Whether the cursor is too old to continue from.
    pub fn is_too_old(&self, now: Timestamp) -> bool {
        self.at < now.before(limits::CHANGES_MAX_AGE)
    }
}

impl fmt::Display for CountCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.last, self.at.as_micros())?;
        for (index, Gap { numbers, since }) in self.gaps.iter().enumerate() {
            let sign = if index == 0 { '.' } else { '_' };
            write!(f, "{sign}{}-{}-{}", numbers.start, numbers.end, since.as_micros())?;
        }
        Ok(())
    }
}

/// The error for an invalid cursor.
pub fn bad_cursor(text: &str) -> StoreError {
    StoreError::BadCursor(text.chars().take(64).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_cursor_comes_back_from_its_text() {
        let at = Timestamp::from_micros;
        let gap = |numbers, since| Gap { numbers, since: at(since) };
        for gaps in [vec![], vec![gap(3..4, 9)], vec![gap(3..4, 9), gap(7..70, 12)]] {
            let cursor = CountCursor { last: 80, at: at(15), gaps };
            assert_eq!(CountCursor::parse(&cursor.to_string()).unwrap(), cursor);
        }
        for bad in ["", "1", "1.x", "1.2.", "1.2.3", "1.2.3-4", "1.2.3-4-5.6", "1.2.3-4-5_"] {
            assert!(CountCursor::parse(bad).is_err(), "{bad}");
        }
    }
}
