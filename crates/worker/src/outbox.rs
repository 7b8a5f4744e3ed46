//! The way from handlers to the settler.

use punctual_client::NoteSink;
use punctual_core::{AttemptId, ProgressReport, Settlement};
use tokio::sync::mpsc::{self, error::TrySendError};

/// Letters that may wait; a handler that ends when there are more waits for the store.
const MAILBOX_MAX_LETTERS: usize = 10_000;

#[derive(Debug)]
pub(crate) enum OutboxMessage {
    ProgressReport(ProgressReport),
    Settle(Ended),
    /// The handler of an execution that was given up is gone.
    Gone(AttemptId),
}

/// An execution that has come to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) settlement: Settlement,
    /// Whether the handler has ended the job by itself, in a transaction of its own. If that has committed, the
    /// settlement comes too late, as it should.
    pub(crate) completed: bool,
}

/// The way to the settler.
#[derive(Debug)]
pub(crate) struct Outbox(mpsc::Sender<OutboxMessage>);

impl Outbox {
    pub(crate) fn new() -> (Self, Inbox) {
        let (sender, receiver) = mpsc::channel(MAILBOX_MAX_LETTERS);
        (Self(sender), Inbox(receiver))
    }

    /// Hands over the end of an execution.
    pub(crate) async fn settle(&self, ended: Ended) {
        if self.0.send(OutboxMessage::Settle(ended)).await.is_err() {
            tracing::error!("the settler is gone; the lease will run out and the job will be run again");
        }
    }

    /// Says that the handler of an execution that was given up is gone. If that cannot be said, its slot is free when
    /// its lease ends.
    pub(crate) fn gone(&self, attempt: AttemptId) -> bool {
        self.0.try_send(OutboxMessage::Gone(attempt)).is_ok()
    }
}

impl NoteSink for Outbox {
    /// A note that finds the mailbox full is dropped: a handler never waits for its own logs.
    fn take(&self, note: ProgressReport) -> bool {
        let attempt = note.attempt;
        let full = matches!(self.0.try_send(OutboxMessage::ProgressReport(note)), Err(TrySendError::Full(_)));
        if full {
            tracing::debug!(job = %attempt.job, %attempt, "dropped what a handler said: the store is too slow");
        }
        !full
    }
}

#[derive(Debug)]
pub(crate) struct Inbox(pub(crate) mpsc::Receiver<OutboxMessage>);
