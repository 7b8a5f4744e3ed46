//! What the writer is asked to do.

use std::time::Instant;

use punctual_core::{ClaimRequest, Settlement, StoreError, Timestamp};
use tokio::sync::oneshot;

use crate::ops::{
    claim::{self, Taken},
    settle::settle,
    tx::{Tx, finish},
};

/// When an operation's caller may be told that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Once the system has it: a loss of power may undo it. Enough for claims and signs of life, since the workers
    /// that made them lose their power too; see docs/adr/0005.
    Soon,
    /// Once it is on the disk.
    Now,
}

pub(crate) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// Something to do in a transaction, and somebody to be told.
pub(crate) trait Operation: Send {
    fn durability(&self) -> Durability;

    /// How many rows it brings, roughly: a group has a bound.
    fn weight(&self) -> usize {
        1
    }

    /// Whether it looks for what others of its group may bring, and so runs after them.
    fn comes_last(&self) -> bool {
        false
    }

    /// When it was asked for.
    fn asked(&self) -> Instant;

    /// Does it; again from the start if it has been undone.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError>;

    /// When it is to be run again because it waits for something; nothing when it is done.
    fn parked(&self) -> Option<Parked> {
        None
    }

    /// Waits no longer, if it does.
    fn wake_claims(&mut self) {}

    /// Tells the caller. Returns what gives claims back that nobody takes, because the caller has gone.
    fn reply(self: Box<Self>, committed: Result<(), StoreError>) -> Vec<Settlement>;
}

/// When a parked operation is to be run again, if nothing happens before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parked {
    pub(crate) deadline: Instant,
    pub(crate) due: Option<Timestamp>,
}

/// An operation that is done when it has run.
pub(crate) struct Call<F, T> {
    pub(crate) asked: Instant,
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

    fn asked(&self) -> Instant {
        self.asked
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        self.done = Some((self.work)(tx)?);
        finish(tx)
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) -> Vec<Settlement> {
        let Self { done, caller, .. } = *self;
        // A caller that no longer waits does not mind.
        let _ = caller.send(committed.and_then(|()| done.ok_or(StoreError::Closed)));
        Vec::new()
    }
}

/// A claim, which is done when it has got something or has waited long enough.
pub(crate) struct ClaimCall {
    pub(crate) request: ClaimRequest,
    pub(crate) deadline: Instant,
    pub(crate) taken: Taken,
    pub(crate) caller: Answer<Taken>,
}

impl Operation for ClaimCall {
    fn durability(&self) -> Durability {
        Durability::Soon
    }

    fn comes_last(&self) -> bool {
        true
    }

    /// A claim may wait for jobs, which is nothing that it missed.
    fn asked(&self) -> Instant {
        Instant::now()
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        if !self.caller.is_closed() {
            self.taken = claim::claim(tx, &self.request)?;
        }
        finish(tx)
    }

    fn parked(&self) -> Option<Parked> {
        let waits = self.taken.is_empty() && !self.caller.is_closed() && Instant::now() < self.deadline;
        waits.then_some(Parked { deadline: self.deadline, due: self.taken.look_again_at })
    }

    fn wake_claims(&mut self) {
        self.deadline = Instant::now();
    }

    fn reply(self: Box<Self>, committed: Result<(), StoreError>) -> Vec<Settlement> {
        let Self { taken, caller, .. } = *self;
        match caller.send(committed.map(|()| taken)) {
            Err(Ok(taken)) => taken.releases(),
            _ => Vec::new(),
        }
    }
}

/// Gives back what was claimed for a caller that has gone meanwhile.
pub(crate) fn release(releases: Vec<Settlement>) -> Box<dyn Operation> {
    let weight = releases.len();
    let work = move |tx: &mut Tx<'_>| settle(tx, &releases);
    let (caller, _) = oneshot::channel();
    Box::new(Call { asked: Instant::now(), durability: Durability::Soon, weight, work, done: None, caller })
}
