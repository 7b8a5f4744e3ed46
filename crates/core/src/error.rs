//! Errors, with the texts that users see.
//!
//! [`Invalid`] is bad input, [`Refused`] is a transition that the state machine forbids, [`StoreError`] is an error of
//! an engine; [`Error`] is any of them, and the error type of the client and the administration.

use std::{fmt, time::Duration};

use crate::{JobId, Status, TokenId, WorkflowId, time::in_words};

/// An invalid input: the field, and the limit that it exceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The name of the field, as users know it.
    pub field: &'static str,
    /// What is wrong, and what is expected.
    pub problem: String,
}

impl Invalid {
    /// An error with a text that also contains what is expected.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }

    /// An input that is too long.
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

/// A transition that the state machine does not have, or that another job prevents. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{job} is {from} and cannot become {to}{hint}{}", held(.holder))]
pub struct Refused {
    /// The job.
    pub job: JobId,
    /// Its status, unchanged.
    pub from: Status,
    /// The requested status.
    pub to: Status,
    /// What to do instead, with a leading separator, or empty.
    pub hint: &'static str,
    /// The job that holds the unique key, if that is the reason.
    pub holder: Option<JobId>,
}

fn held(holder: &Option<JobId>) -> String {
    let hint = |holder: &JobId| format!("; {holder} holds its unique key: wait until it has ended, or cancel it");
    holder.as_ref().map(hint).unwrap_or_default()
}

/// An error of an engine.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be opened or reached.
    #[error("cannot reach the store {store}: {reason}")]
    Unreachable {
        /// The store, without secrets.
        store: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The URL of the store is invalid.
    #[error("invalid store URL {store}: {reason}")]
    InvalidUrl {
        /// The URL as far as it could be read, without secrets.
        store: String,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// The store does not exist, and was not to be created.
    #[error("no {missing} at {store}: create it with `punctual migrate` or `punctual up`")]
    Absent {
        /// The store, without secrets.
        store: String,
        /// What is missing.
        missing: &'static str,
    },
    /// The SQLite file holds tables of another program only, and was not to be shared with it. Nothing was added.
    #[error(
        "{store} belongs to another program: it has tables such as `{table}`, and none of Punctual; nothing was added. \
         Choose another file, or share this one: `punctual migrate --alongside`"
    )]
    OtherProgram {
        /// The store.
        store: String,
        /// A table of the other program.
        table: String,
    },
    /// This build has no engine for this URL scheme.
    #[error("unsupported store URL scheme `{scheme}`: expected {expected}; for example sqlite:punctual.db")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
        /// The schemes of the available engines.
        expected: String,
    },
    /// Another process kept the store locked for longer than the time limit.
    #[error("{}; the operation is retried", busy(.waited_ms))]
    Busy {
        /// How long the operation waited.
        waited_ms: u64,
    },
    /// The disk or the store is full.
    #[error("the store is full: {0}; free disk space (acknowledged data is not lost)")]
    Full(String),
    /// The store cannot be written.
    #[error("the store is not writable: {0}; check the permissions of the file and its directory")]
    ReadOnly(String),
    /// The server that holds the store accepts no writes at the moment.
    #[error("the server of {store} is read-only (standby?): {reason}")]
    ReadOnlyServer {
        /// The store, without secrets.
        store: String,
        /// The message of the server.
        reason: String,
    },
    /// The store is damaged, or not a store of Punctual.
    #[error("the store is damaged or not a Punctual store: {0}; restore a backup or choose another file")]
    Corrupt(String),
    /// The store was written by a newer version.
    #[error(
        "the store has schema version {found}, but this version of Punctual supports up to {known}; upgrade Punctual"
    )]
    NewerSchema {
        /// The version of the store.
        found: u32,
        /// The newest version that this build supports.
        known: u32,
    },
    /// The text of an applied migration differs from the one in this build.
    #[error(
        "migration {version} of the store was applied with another content (checksum {found}, expected {expected})"
    )]
    ChangedMigration {
        /// The number of the migration.
        version: u32,
        /// The checksum in the store.
        found: String,
        /// The checksum in this build.
        expected: String,
    },
    /// The cursor was not returned by this list.
    #[error("cursor: `{0}` does not continue this list; use the `next` of an earlier page with the same filter")]
    BadCursor(String),
    /// A job that was to be enqueued names a parent that does not exist. Nothing was enqueued.
    #[error("parents: job {0} not found or deleted; nothing was enqueued")]
    UnknownParent(JobId),
    /// A job was to replace another one in a workflow, which had been replaced already. Nothing was changed.
    #[error("the workflow was retried by someone else meanwhile: {0} is the new job; nothing was changed")]
    Superseded(JobId),
    /// The store failed permanently in this process: the disk did not confirm a write, so earlier writes may be lost,
    /// too. No further writes are acknowledged.
    #[error("the store {store} failed permanently: {reason}; this process exits. Check the disk, then restart it")]
    Failed {
        /// The store, without secrets.
        store: String,
        /// What was written, and the error of the disk.
        reason: String,
    },
    /// A row contains data that Punctual did not write.
    #[error("corrupt row {row}: {reason}; it was edited by hand or damaged")]
    CorruptRow {
        /// The row, as precisely as it can be identified.
        row: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Any other error. The same call is not expected to succeed later.
    #[error("the store failed: {0}")]
    Other(String),
}

fn waited(waited_ms: &u64) -> String {
    in_words(Duration::from_millis(*waited_ms))
}

fn busy(waited_ms: &u64) -> String {
    match waited_ms {
        0 => "another transaction changed the same rows".to_owned(),
        _ => format!("the store was locked by another program for {}", waited(waited_ms)),
    }
}

impl StoreError {
    /// Whether the same call may succeed later without intervention.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Full(_) | Self::Unreachable { .. } | Self::ReadOnlyServer { .. })
    }

    /// Whether all further calls of this process will fail.
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
    /// No job has this id.
    #[error("job {0} not found; it may have been purged by retention")]
    NotFound(JobId),
    /// No schedule has this name.
    #[error("schedule `{0}` not found; `punctual schedules list` lists all")]
    NoSchedule(String),
    /// No workflow has this id.
    #[error("workflow {0} not found; it may have been removed by retention with its jobs")]
    NoWorkflow(WorkflowId),
    /// A retry was requested for a workflow in which there is nothing to retry.
    #[error("workflow {0} has nothing to retry: none of its jobs is dead or cancelled")]
    NothingToRetry(WorkflowId),
    /// The schedule is synchronised with a definition elsewhere.
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
    /// A store that has valid tokens was to be opened to unauthenticated access.
    #[error("cannot open the store: valid tokens: {0}; list them with `punctual tokens list` and revoke them first")]
    TokensValid(usize),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The time limit of a wait expired first.
    #[error("{job} was still {status} after {}", waited(.waited_ms))]
    TimedOut {
        /// The job that was waited for.
        job: JobId,
        /// Its status by then.
        status: Status,
        /// How long the call waited.
        waited_ms: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_resolve_by_themselves_are_transient() {
        let (store, reason) = (String::new(), String::new());
        assert!(StoreError::Busy { waited_ms: 1 }.is_transient());
        assert!(StoreError::ReadOnlyServer { store, reason: reason.clone() }.is_transient());
        assert!(!StoreError::InvalidUrl { store: String::new(), reason: reason.clone() }.is_transient());
        assert!(!StoreError::CorruptRow { row: "job".into(), reason }.is_transient());
        assert!(!StoreError::Other("anything".into()).is_transient());
    }

    #[test]
    fn durations_are_written_for_people() {
        let busy = |waited_ms| StoreError::Busy { waited_ms }.to_string();
        assert_eq!(busy(60_000), "the store was locked by another program for 60 s; the operation is retried");
        assert_eq!(busy(0), "another transaction changed the same rows; the operation is retried");
        let job: JobId = "job_0190000000007000800000000000000a".parse().unwrap();
        let late = Error::TimedOut { job, status: Status::Queued, waited_ms: 180_000 };
        assert_eq!(late.to_string(), format!("{job} was still queued after 3 min"));
    }
}
