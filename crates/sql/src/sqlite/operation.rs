//! Requests to the writer.

use std::time::Instant;

use punctual_core::{ClaimRequest, Settlement, StoreError, Timestamp};
use tokio::sync::oneshot;

use crate::ops::{
    claim::{self, ClaimedJobs},
    finish::finish,
    settle::settle,
    tx::Tx,
};

/// When the caller of an operation may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// After the commit, without waiting for the disk: a power failure may undo it. Enough for claims and heartbeats,
    /// since a power failure also stops the workers that sent them; see docs/adr/0005.
    Soon,
    /// Once the commit is on disk.
    Now,
}

pub(crate) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// Work to do in a transaction, and the caller that waits for its result.
pub(crate) trait Operation: Send {
    fn durability(&self) -> Durability;

    /// The approximate number of rows that it writes; the rows of a group are limited.
    fn weight(&self) -> usize {
        1
    }

    /// Whether it should run after the other operations of its group, because it uses their results.
    fn comes_last(&self) -> bool {
        false
    }

    /// When the operation was requested.
    fn requested_at(&self) -> Instant;

    /// Runs the operation; runs it again from the start if the transaction was rolled back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError>;

    /// The conditions on which it runs again, if it waits for something; none when it is done.
    fn parked(&self) -> Option<Parked> {
        None
    }

    /// Stops waiting, if the operation is a claim that waits.
    fn wake_claims(&mut self) {}

    /// Answers the caller. Returns settlements that release the claims of a caller that no longer exists.
    fn reply(self: Box<Self>, committed: Result<(), StoreError>) -> Vec<Settlement>;
}

/// When to run a parked operation again, if nothing wakes it before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parked {
    pub(crate) deadline: Instant,
    pub(crate) due: Option<Timestamp>,
}

/// An operation that is done after one execution.
pub(crate) struct Call<F, T> {
    pub(crate) requested_at: Instant,
    pub(crate) durability: Durability,
    pub(crate) weight: usize,
    pub(crate) work: F,
    pub(crate) done: Option<T>,
    pub(crate) caller: Answer<T>,
}

impl<F, T> Operation for Call<F, T>
where
    F: Fn(&mut Tx<'_>) -> Result<T, StoreError> + Send,
    T: Send,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn weight(&self) -> usize {
        self.weight
    }

    fn requested_at(&self) -> Instant {
        self.requested_at
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        self.done = Some((self.work)(tx)?);
        finish(tx)
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) -> Vec<Settlement> {
        let Self { done, caller, .. } = *self;
        // The caller may have stopped waiting.
        let _ = caller.send(committed.and_then(|()| done.ok_or(StoreError::Closed)));
        Vec::new()
    }
}

/// A claim, which is done when it has claimed a job or its wait has expired.
pub(crate) struct ClaimCall {
    pub(crate) request: ClaimRequest,
    pub(crate) deadline: Instant,
    pub(crate) claimed: ClaimedJobs,
    pub(crate) caller: Answer<ClaimedJobs>,
}

impl Operation for ClaimCall {
    fn durability(&self) -> Durability {
        Durability::Soon
    }

    fn comes_last(&self) -> bool {
        true
    }

    /// Always now: the time that a claim waits for jobs is not a delay of the store.
    fn requested_at(&self) -> Instant {
        Instant::now()
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        if !self.caller.is_closed() {
            self.claimed = claim::claim(tx, &self.request)?;
        }
        finish(tx)
    }

    fn parked(&self) -> Option<Parked> {
        let waits = self.claimed.is_empty() && !self.caller.is_closed() && Instant::now() < self.deadline;
        waits.then_some(Parked { deadline: self.deadline, due: self.claimed.claim_again_at })
    }

    fn wake_claims(&mut self) {
        self.deadline = Instant::now();
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) -> Vec<Settlement> {
        let Self { claimed, caller, .. } = *self;
        match caller.send(committed.map(|()| claimed)) {
            Err(Ok(claimed)) => claimed.releases(),
            _ => Vec::new(),
        }
    }
}

/// An operation that releases claims whose caller no longer exists.
pub(crate) fn release(releases: Vec<Settlement>) -> Box<dyn Operation> {
    let weight = releases.len();
    let work = move |tx: &mut Tx<'_>| settle(tx, &releases);
    let (caller, _) = oneshot::channel();
    Box::new(Call { requested_at: Instant::now(), durability: Durability::Soon, weight, work, done: None, caller })
}
