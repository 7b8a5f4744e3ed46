//! What happens to jobs, for whoever follows it: what came since a former look, and where to go on from.

use std::{fmt, ops::Range};

use serde::Serialize;

use crate::{Event, JobId, JobOptions, Spec, StoreError, Timestamp, WorkflowId, limits};

/// What happened since a former look.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// In the order of time.
    pub events: Vec<JobEvent>,
    /// Where the next look goes on. Only the store knows what it says.
    pub cursor: String,
    /// More happened than is told here.
    pub missed: bool,
}

impl Changes {
    /// Nothing, or nothing that is known.
    pub const fn none(cursor: String, missed: bool) -> Self {
        Self { events: Vec::new(), cursor, missed }
    }
}

/// What happened to a job, with what the job is selected by.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobEvent {
    /// The job.
    pub job: JobId,
    /// Its queue.
    pub queue: String,
    /// Its name.
    pub name: String,
    /// On whose behalf it runs.
    pub user_id: Option<String>,
    /// What it belongs to.
    pub correlation_id: Option<String>,
    /// The workflow it is part of.
    pub workflow_id: Option<WorkflowId>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The schedule of which it is an occurrence.
    pub schedule: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl JobEvent {
    /// What happened to a job with those options; all else is for the caller to say.
    pub fn new(job: JobId, queue: String, name: String, options: JobOptions, event: Event) -> Self {
        let schedule = options.occurrence.map(|occurrence| occurrence.schedule);
        Self {
            job,
            queue,
            name,
            user_id: None,
            correlation_id: None,
            workflow_id: None,
            tags: options.tags,
            schedule,
            event,
        }
    }

    /// What happened to a job that is known.
    pub fn of(job: JobId, spec: &Spec, event: Event) -> Self {
        Self {
            user_id: spec.user_id.clone(),
            correlation_id: spec.correlation_id.clone(),
            workflow_id: spec.workflow_id,
            ..Self::new(job, spec.queue.clone(), spec.name.clone(), spec.options.clone(), event)
        }
    }
}

/// The cursor of a store that counts its events: the number of the last one, and when that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountCursor {
    /// The number of the last event.
    pub last: u64,
    /// When somebody looked.
    pub at: Timestamp,
    /// Lesser numbers of which no event could be seen. Where several write at once, one may come yet.
    pub gaps: Vec<Gap>,
}

/// Numbers without events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The numbers.
    pub numbers: Range<u64>,
    /// When that was noticed.
    pub since: Timestamp,
}

impl CountCursor {
    /// From its text.
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

    /// Whether it is too long ago to be gone on from.
    pub fn is_too_old(&self, now: Timestamp) -> bool {
        self.at < now.before(limits::CHANGES_MAX_AGE)
    }
}

impl fmt::Display for CountCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.last, self.at.as_micros())?;
        for (place, Gap { numbers, since }) in self.gaps.iter().enumerate() {
            let sign = if place == 0 { '.' } else { '_' };
            write!(f, "{sign}{}-{}-{}", numbers.start, numbers.end, since.as_micros())?;
        }
        Ok(())
    }
}

/// What is no cursor.
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
