//! The state machine, as one table. Status changes that are not in it are not allowed.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Waits for its parents.
    Waiting,
    /// Waits for its start time.
    Scheduled,
    /// May be claimed by a worker.
    Queued,
    /// Claimed by a worker.
    Processing,
    /// Completed successfully.
    Succeeded,
    /// An attempt failed. A transient status: the next one is decided in the same transaction.
    Failed,
    /// Waits for its next attempt.
    Retrying,
    /// Failed permanently, unless it is retried manually.
    Dead,
    /// Cancelled; does not run.
    Cancelled,
    /// Hidden; retention removes it later.
    Deleted,
}

use Status::*;

/// All allowed transitions: a status, and its successors.
pub const TRANSITIONS: [(Status, &[Status]); 10] = [
    (Waiting, &[Scheduled, Queued, Cancelled]),
    (Scheduled, &[Queued, Cancelled]),
    (Queued, &[Processing, Cancelled, Deleted]),
    (Processing, &[Succeeded, Failed, Cancelled, Queued, Scheduled]),
    (Failed, &[Retrying, Dead, Queued]),
    (Retrying, &[Queued, Cancelled]),
    (Dead, &[Queued, Deleted]),
    (Succeeded, &[Deleted]),
    (Cancelled, &[Deleted]),
    (Deleted, &[]),
];

impl Status {
    /// All statuses, in the order in which interfaces list them.
    pub const ALL: [Self; 10] =
        [Waiting, Scheduled, Queued, Processing, Succeeded, Failed, Retrying, Dead, Cancelled, Deleted];

    /// The name in all interfaces and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Waiting => "waiting",
            Scheduled => "scheduled",
            Queued => "queued",
            Processing => "processing",
            Succeeded => "succeeded",
            Failed => "failed",
            Retrying => "retrying",
            Dead => "dead",
            Cancelled => "cancelled",
            Deleted => "deleted",
        }
    }

    /// Whether a job may change from this status to `to`.
    ///
    /// ```
    /// use punctual_core::Status;
    /// assert!(Status::Dead.may_become(Status::Queued));
    /// assert!(!Status::Succeeded.may_become(Status::Queued));
    /// ```
    pub fn may_become(self, to: Self) -> bool {
        TRANSITIONS.iter().any(|(from, targets)| *from == self && targets.contains(&to))
    }

    /// Whether a job may still run without intervention.
    pub const fn is_active(self) -> bool {
        !self.is_finished()
    }

    /// Whether the job is finished: succeeded, dead, cancelled or deleted.
    pub const fn is_finished(self) -> bool {
        matches!(self, Succeeded | Dead | Cancelled | Deleted)
    }

    /// Whether the job waits for a start time.
    pub const fn is_timed(self) -> bool {
        matches!(self, Scheduled | Retrying)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error for an unknown status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown status `{0}`: expected waiting, scheduled, queued, processing, succeeded, failed, retrying, dead, cancelled or deleted"
)]
pub struct UnknownStatus(String);

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        let known = Self::ALL.into_iter().find(|status| status.as_str() == text);
        known.ok_or_else(|| UnknownStatus(text.chars().take(64).collect()))
    }
}

/// Status of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptStatus {
    /// In progress.
    Running,
    /// The handler returned a result.
    Succeeded,
    /// The handler returned an error or panicked.
    Failed,
    /// The handler ran longer than the job's timeout.
    TimedOut,
    /// The job was cancelled while it ran.
    Cancelled,
    /// The worker was lost: its lease expired or its process died.
    Lost,
    /// The worker released the job, or the handler snoozed it. Does not count as an attempt.
    Released,
}

impl AttemptStatus {
    /// All statuses.
    pub const ALL: [Self; 7] =
        [Self::Running, Self::Succeeded, Self::Failed, Self::TimedOut, Self::Cancelled, Self::Lost, Self::Released];

    /// The name in all interfaces and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Released => "released",
        }
    }
}

impl fmt::Display for AttemptStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for AttemptStatus {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        let known = Self::ALL.into_iter().find(|status| status.as_str() == text);
        known.ok_or_else(|| UnknownStatus(text.chars().take(64).collect()))
    }
}

/// The state machine as the table of `docs/state-machine.md`; a test compares the two.
pub fn markdown_table() -> String {
    let mut table = String::from("| from | to |\n|---|---|\n");
    for (from, targets) in TRANSITIONS {
        let names: Vec<_> = targets.iter().map(|status| status.as_str()).collect();
        let targets = if names.is_empty() { "–".to_owned() } else { names.join(", ") };
        table.push_str(&format!("| {from} | {targets} |\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_one_row_in_the_table() {
        for status in Status::ALL {
            assert_eq!(TRANSITIONS.iter().filter(|(from, _)| *from == status).count(), 1, "{status}");
        }
    }

    #[test]
    fn names_come_back_as_statuses() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
            assert_eq!(serde_json::to_string(&status).unwrap(), format!("\"{status}\""));
        }
        for status in AttemptStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
            assert_eq!(serde_json::to_string(&status).unwrap(), format!("\"{status}\""));
        }
        assert!("Queued".parse::<Status>().is_err());
    }

    #[test]
    fn the_documented_table_is_the_one_in_the_code() {
        // Not included at compile time: the package does not contain it.
        let docs =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/state-machine.md")).unwrap();
        assert!(docs.contains(&markdown_table()), "docs/state-machine.md should hold:\n{}", markdown_table());
    }
}
