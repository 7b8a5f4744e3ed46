//! A workflow: jobs that were submitted together, each under a name of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{JobId, Status, Timestamp, WorkflowId};

/// A workflow on its way into the store.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWorkflow {
    /// Its id.
    pub id: WorkflowId,
    /// What it is called; need not be unique.
    pub name: String,
    /// Who submitted it.
    pub created_by: Option<String>,
}

/// A workflow as the store has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Workflow {
    /// Its id.
    pub id: WorkflowId,
    /// What it is called.
    pub name: String,
    /// Who submitted it.
    pub created_by: Option<String>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When one of its jobs last came to an end, or back from one.
    pub updated_at: Timestamp,
    /// How its jobs stand.
    #[serde(flatten)]
    pub ends: Ends,
}

/// How many jobs a workflow has, and how many have come to an end. Callbacks are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ends {
    /// Its jobs.
    pub total: u32,
    /// Those that succeeded.
    pub succeeded: u32,
    /// Those that died.
    pub dead: u32,
    /// Those that were cancelled, or deleted before they ran.
    pub cancelled: u32,
}

impl Ends {
    /// Those that have not come to an end.
    pub const fn unfinished(&self) -> u32 {
        self.total.saturating_sub(self.succeeded + self.dead + self.cancelled)
    }
}

/// How a workflow stands as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WorkflowStatus {
    /// Some of its jobs have not come to an end.
    Running,
    /// All succeeded.
    Succeeded,
    /// All have ended, and at least one died.
    Failed,
    /// All have ended, none died, and at least one was cancelled.
    Cancelled,
}

impl WorkflowStatus {
    /// Its name at every surface.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for WorkflowStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Workflow {
    /// How it stands as a whole.
    pub const fn status(&self) -> WorkflowStatus {
        match self.ends {
            ends if ends.unfinished() > 0 => WorkflowStatus::Running,
            Ends { dead: 1.., .. } => WorkflowStatus::Failed,
            Ends { cancelled: 1.., .. } => WorkflowStatus::Cancelled,
            _ => WorkflowStatus::Succeeded,
        }
    }
}

/// One more or one fewer job of a workflow in one of its [`Ends`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndsChange {
    /// Of those that succeeded.
    pub succeeded: i32,
    /// Of those that died.
    pub dead: i32,
    /// Of those that were cancelled.
    pub cancelled: i32,
}

impl EndsChange {
    /// A job has gone from one status to another.
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

    /// What a job's way between two statuses changes. One that is deleted after its end keeps its place; one that is
    /// deleted before counts as cancelled.
    pub fn of(from: Status, to: Status) -> Self {
        let mut change = Self::default();
        match (from, to) {
            (from, Status::Deleted) if from.is_finished() => {}
            (from, Status::Deleted) => change.count(from, Status::Cancelled),
            (from, to) => change.count(from, to),
        }
        change
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            succeeded: self.succeeded + other.succeeded,
            dead: self.dead + other.dead,
            cancelled: self.cancelled + other.cancelled,
        }
    }
}

/// A job in its workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// The name it has there.
    pub node: String,
    /// The job: the latest, if it was run once more.
    pub id: JobId,
    /// What it is.
    pub name: String,
    /// Where it stands.
    pub status: Status,
    /// The jobs it waits for, or waited for.
    pub parents: Vec<JobId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_stands_as_its_jobs_do() {
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
    fn a_finished_job_that_is_deleted_keeps_its_place() {
        assert_eq!(EndsChange::of(Status::Succeeded, Status::Deleted), EndsChange::default());
        assert_eq!(EndsChange::of(Status::Queued, Status::Deleted), EndsChange { cancelled: 1, ..Default::default() });
        assert_eq!(EndsChange::of(Status::Dead, Status::Queued), EndsChange { dead: -1, ..Default::default() });
    }
}
