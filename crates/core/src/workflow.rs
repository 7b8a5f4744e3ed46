//! A workflow: jobs that were submitted together, each with a name in the workflow.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{JobId, Status, Timestamp, WorkflowId};

/// A workflow that is to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWorkflow {
    /// Its id.
    pub id: WorkflowId,
    /// Its name; need not be unique.
    pub name: String,
    /// Who submitted it.
    pub created_by: Option<String>,
}

/// A workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Workflow {
    /// Workflow ID.
    pub id: WorkflowId,
    /// Name of the workflow.
    pub name: String,
    /// Service or person that submitted the workflow.
    pub created_by: Option<String>,
    /// Submission time.
    pub created_at: Timestamp,
    /// Last time that one of its jobs finished, or was reactivated after it had finished.
    pub updated_at: Timestamp,
    /// Numbers of its jobs, in total and finished.
    #[serde(flatten)]
    pub ends: Ends,
}

/// Number of jobs of a workflow, and of those that have finished. Callbacks are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ends {
    /// Number of jobs.
    pub total: u32,
    /// Number of jobs that succeeded.
    pub succeeded: u32,
    /// Number of jobs that died.
    pub dead: u32,
    /// Number of jobs that were cancelled, or deleted before they finished.
    pub cancelled: u32,
}

impl Ends {
    /// The number of jobs that have not finished.
    pub const fn unfinished(&self) -> u32 {
        self.total.saturating_sub(self.succeeded + self.dead + self.cancelled)
    }
}

/// Overall status of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WorkflowStatus {
    /// At least one job has not finished.
    Running,
    /// All jobs succeeded.
    Succeeded,
    /// All jobs have finished, and at least one died.
    Failed,
    /// All jobs have finished, none died, and at least one was cancelled.
    Cancelled,
}

impl WorkflowStatus {
    /// The name in all interfaces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of a job in the same state; interfaces show both in the same colour.
    pub const fn job_status(self) -> Status {
        match self {
            Self::Running => Status::Processing,
            Self::Succeeded => Status::Succeeded,
            Self::Failed => Status::Dead,
            Self::Cancelled => Status::Cancelled,
        }
    }
}

impl fmt::Display for WorkflowStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Workflow {
    /// The overall status.
    pub const fn status(&self) -> WorkflowStatus {
        match self.ends {
            ends if ends.unfinished() > 0 => WorkflowStatus::Running,
            Ends { dead: 1.., .. } => WorkflowStatus::Failed,
            Ends { cancelled: 1.., .. } => WorkflowStatus::Cancelled,
            _ => WorkflowStatus::Succeeded,
        }
    }
}

/// A change of the numbers of a workflow's [`Ends`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndsChange {
    /// The change of the number of succeeded jobs.
    pub succeeded: i32,
    /// The change of the number of dead jobs.
    pub dead: i32,
    /// The change of the number of cancelled jobs.
    pub cancelled: i32,
}

impl EndsChange {
    /// Records that a job changed from one status to another.
    pub fn count(&mut self, from: Status, to: Status) {
        self.add(from, -1);
        self.add(to, 1);
    }

    fn add(&mut self, status: Status, n: i32) {
        match status {
            Status::Succeeded => self.succeeded += n,
            Status::Dead => self.dead += n,
            Status::Cancelled => self.cancelled += n,
            _ => {}
        }
    }

    /// The change that results from a job's change between two statuses. A job that is deleted after its end remains
    /// counted as before; one that is deleted earlier counts as cancelled.
    pub fn of(from: Status, to: Status) -> Self {
        let mut change = Self::default();
        match (from, to) {
            (from, Status::Deleted) if from.is_finished() => {}
            (from, Status::Deleted) => change.count(from, Status::Cancelled),
            (from, to) => change.count(from, to),
        }
        change
    }

    /// The sum of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            succeeded: self.succeeded + other.succeeded,
            dead: self.dead + other.dead,
            cancelled: self.cancelled + other.cancelled,
        }
    }
}

/// A job in a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// Name of the job in the workflow.
    pub node: String,
    /// Job ID: that of the latest job, if the job was rerun.
    pub id: JobId,
    /// Job name, which selects its handler.
    pub name: String,
    /// Status of the job.
    pub status: Status,
    /// Current and former parents of the job.
    pub parents: Vec<JobId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_workflow_follows_from_its_jobs() {
        let status = |total, succeeded, dead, cancelled| {
            let ends = Ends { total, succeeded, dead, cancelled };
            let (id, at) = (WorkflowId::from_bits(1), Timestamp::MIN);
            Workflow { id, name: "w".into(), created_by: None, created_at: at, updated_at: at, ends }.status()
        };
        assert_eq!(status(3, 1, 1, 0), WorkflowStatus::Running);
        assert_eq!(status(3, 3, 0, 0), WorkflowStatus::Succeeded);
        assert_eq!(status(3, 1, 1, 1), WorkflowStatus::Failed);
        assert_eq!(status(3, 2, 0, 1), WorkflowStatus::Cancelled);
        assert_eq!(status(0, 0, 0, 0), WorkflowStatus::Succeeded);
    }

    #[test]
    fn a_finished_job_that_is_deleted_is_still_counted() {
        assert_eq!(EndsChange::of(Status::Succeeded, Status::Deleted), EndsChange::default());
        assert_eq!(EndsChange::of(Status::Queued, Status::Deleted), EndsChange { cancelled: 1, ..Default::default() });
        assert_eq!(EndsChange::of(Status::Dead, Status::Queued), EndsChange { dead: -1, ..Default::default() });
    }
}
