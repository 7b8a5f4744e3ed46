//! What can go wrong, in the words that users see.
//!
//! [`Invalid`] is bad input, [`Refused`] is a transition the state machine forbids, [`StoreError`] is what an
//! engine reports; [`Error`] is any of them, and what the client and the administration return.

use std::fmt;

use crate::{JobId, Status, TokenId, WorkflowId};

/// An input that is not accepted: the field, and the limit it breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The field, by the name that users know.
    pub field: &'static str,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Invalid {
    /// An input with a problem that says what would be right.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }

    /// An input that is longer than it may be.
    pub fn too_long(field: &'static str, found: usize, max: usize, unit: &str) -> Self {
        Self::new(field, format!("{found} {unit}, at most {max} are allowed"))
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for Invalid {}

/// A transition that the state machine does not have, or that another job is in the way of. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{job} is {from} and cannot become {to}{hint}{}", held(.holder))]
pub struct Refused {
    /// The job.
    pub job: JobId,
    /// Its status, unchanged.
    pub from: Status,
    /// The status that was asked for.
    pub to: Status,
    /// What to do instead, with a leading separator, or nothing.
    pub hint: &'static str,
    /// The job that holds its unique key, if that is why.
    pub holder: Option<JobId>,
}

fn held(holder: &Option<JobId>) -> String {
    let hint = |holder: &JobId| format!("; {holder} holds its unique key: wait until it has ended, or cancel it");
    holder.as_ref().map(hint).unwrap_or_default()
}

/// What an engine reports.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be opened or reached.
    #[error("cannot reach the store {store}: {reason}")]
    Unreachable {
        /// Which store, without secrets.
        store: String,
        /// Why, and what to do.
        reason: String,
    },
    /// No engine of this build has URLs of that scheme.
    #[error("unsupported store URL scheme `{scheme}`: expected {expected}; for example sqlite:punctual.db")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
        /// The schemes of the engines that are there.
        expected: String,
    },
    /// Others kept the store locked for longer than we wait.
    #[error("the store was locked by another program for {waited_ms} ms; the operation is retried")]
    Busy {
        /// How long we waited.
        waited_ms: u64,
    },
    /// There is no room left to write.
    #[error("the store is full: {0}; free disk space (acknowledged data is not lost)")]
    Full(String),
    /// The store cannot be written.
    #[error("the store is not writable: {0}; check the permissions of the file and its directory")]
    ReadOnly(String),
    /// The server that holds the store accepts no writes at the moment.
    #[error("the server of {store} is read-only (standby?): {reason}")]
    ReadOnlyServer {
        /// Which store, without secrets.
        store: String,
        /// What the server says.
        reason: String,
    },
    /// The store is damaged or is something else.
    #[error("the store is damaged or not a Punctual store: {0}; restore a backup or choose another file")]
    Corrupt(String),
    /// The store was written by a newer version.
    #[error(
        "the store has schema version {found}, but this version of Punctual supports up to {known}; upgrade Punctual"
    )]
    NewerSchema {
        /// The version of the store.
        found: u32,
        /// The newest version that this build knows.
        known: u32,
    },
    /// A migration was applied with another text than this build has.
    #[error(
        "migration {version} of the store was applied with another content (checksum {found}, expected {expected})"
    )]
    ChangedMigration {
        /// Its number.
        version: u32,
        /// What the store says.
        found: String,
        /// What this build has.
        expected: String,
    },
    /// The cursor is not one that this list gave.
    #[error("cursor: `{0}` does not continue this list; use the `next` of an earlier page with the same filter")]
    BadCursor(String),
    /// A job that was to be enqueued names a parent that is not there. Nothing was enqueued.
    #[error("parents: job {0} not found or deleted; nothing was enqueued")]
    UnknownParent(JobId),
    /// A job was to take the place of another one in a workflow, which is no longer there. Nothing was changed.
    #[error("the workflow was retried by someone else meanwhile: {0} is the new job; nothing was changed")]
    Superseded(JobId),
    /// The store failed for good in this process: the disk did not confirm a write, so that what was written before may
    /// be lost. Nothing more is acknowledged.
    #[error("the store {store} failed permanently: {reason}; this process exits. Check the disk, then restart it")]
    Failed {
        /// Which store, without secrets.
        store: String,
        /// What was written, and what the disk said.
        reason: String,
    },
    /// A row holds what Punctual has not written.
    #[error("corrupt row {row}: {reason}; it was edited by hand or damaged")]
    CorruptRow {
        /// Which row, as precisely as it can be told.
        row: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Anything else. The same call is not expected to succeed later.
    #[error("the store failed: {0}")]
    Other(String),
}

impl StoreError {
    /// Whether the same call may succeed later without anybody's doing.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Full(_) | Self::Unreachable { .. } | Self::ReadOnlyServer { .. })
    }

    /// Whether no call of this process can succeed any more.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Closed)
    }
}

/// Any error of the client and of the administration.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Bad input.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A forbidden transition.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// No such job.
    #[error("job {0} not found; it may have been purged by retention")]
    NotFound(JobId),
    /// No such schedule.
    #[error("schedule `{0}` not found; `punctual schedules list` lists all")]
    NoSchedule(String),
    /// No such workflow.
    #[error("workflow {0} not found; it may have been removed by retention with its jobs")]
    NoWorkflow(WorkflowId),
    /// A workflow that has nothing for a retry to do.
    #[error("workflow {0} has nothing to retry: none of its jobs is dead or cancelled")]
    NothingToRetry(WorkflowId),
    /// A schedule that is synchronised with its definition elsewhere.
    #[error("schedule `{schedule}` is defined by {owner}; change it there")]
    Owned {
        /// The schedule.
        schedule: String,
        /// Where it is defined.
        owner: String,
    },
    /// The last valid token with the role admin was to be revoked.
    #[error(
        "{0} is the last valid token with the role admin; confirm with --allow-last-admin, or allow_last_admin=true in the query over HTTP"
    )]
    LastAdmin(TokenId),
    /// A store was to be opened in which tokens are valid.
    #[error("cannot open the store: valid tokens: {0}; list them with `punctual token list` and revoke them first")]
    TokensValid(usize),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The time to wait was over first.
    #[error("{job} was still {status} after {waited_ms} ms")]
    TimedOut {
        /// The job that was waited for.
        job: JobId,
        /// Its status by then.
        status: Status,
        /// How long was waited.
        waited_ms: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passes_by_itself_is_transient() {
        let (store, reason) = (String::new(), String::new());
        assert!(StoreError::Busy { waited_ms: 1 }.is_transient());
        assert!(StoreError::ReadOnlyServer { store, reason: reason.clone() }.is_transient());
        assert!(!StoreError::CorruptRow { row: "job".into(), reason }.is_transient());
        assert!(!StoreError::Other("anything".into()).is_transient());
    }
}
