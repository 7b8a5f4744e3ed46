//! The channel from handlers to the settler.

use punctual_client::ProgressSink;
use punctual_core::{AttemptId, ProgressReport, Settlement};
use tokio::sync::mpsc::{self, error::TrySendError};

/// Capacity of the channel; if it is full, a handler that ends waits for the store.
const OUTBOX_MAX_MESSAGES: usize = 10_000;

#[derive(Debug)]
pub(crate) enum OutboxMessage {
    ProgressReport(ProgressReport),
    Settle(Ended),
    /// The handler of an execution that was given up has ended.
    Gone(AttemptId),
}

/// An execution that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) settlement: Settlement,
    /// Whether the handler has completed the job in a transaction of its own. If that has committed, the settlement is
    /// stale, as expected.
    pub(crate) completed: bool,
}

/// Sends messages to the settler.
#[derive(Debug)]
pub(crate) struct Outbox(mpsc::Sender<OutboxMessage>);

impl Outbox {
    pub(crate) fn new() -> (Self, Inbox) {
        let (sender, receiver) = mpsc::channel(OUTBOX_MAX_MESSAGES);
        (Self(sender), Inbox(receiver))
    }

    /// Sends the outcome of an execution.
    pub(crate) async fn settle(&self, ended: Ended) {
        if self.0.send(OutboxMessage::Settle(ended)).await.is_err() {
            tracing::error!("the settler has ended; the lease will expire and the job will run again");
        }
    }

    /// Reports that the handler of an execution that was given up has ended. If the report cannot be sent, its slot is
    /// released when its lease expires.
    pub(crate) fn gone(&self, attempt: AttemptId) -> bool {
        self.0.try_send(OutboxMessage::Gone(attempt)).is_ok()
    }
}

impl ProgressSink for Outbox {
    /// A report is dropped if the channel is full: a handler never waits for its own logs.
    fn take(&self, report: ProgressReport) -> bool {
        let attempt = report.attempt;
        let full = matches!(self.0.try_send(OutboxMessage::ProgressReport(report)), Err(TrySendError::Full(_)));
        if full {
            tracing::debug!(job = %attempt.job, %attempt, "dropped a progress report: the store is too slow");
        }
        !full
    }
}

#[derive(Debug)]
pub(crate) struct Inbox(pub(crate) mpsc::Receiver<OutboxMessage>);
