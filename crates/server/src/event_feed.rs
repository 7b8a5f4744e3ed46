//! What happens to jobs, brought to whoever listens: one look at the store serves all of them, and there is none while
//! nobody does.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use punctual_client::Punctual;
use punctual_core::{Changes, EventId, JobEvent, StoreError, StoreResult, Timestamp};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::{self, Instant},
};

/// How long after a look the next one follows at the earliest.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A look that takes long is followed by a rest so many times as long: the store is for jobs first.
const REST: u32 = 9;
/// Events that one look brings, or that somebody who comes back is told; of more they are told that they missed them.
const LOOK_MAX_EVENTS: usize = 5_000;

/// What one look found.
#[derive(Debug)]
struct Batch {
    events: Vec<JobEvent>,
    /// Where whoever has this goes on from.
    cursor: String,
    /// There was more than a look takes.
    missed: bool,
    /// The events that were brought before this, since anybody listened.
    before: u64,
    at: Timestamp,
    /// Nothing that could be seen by then is in it.
    since: Instant,
}

/// Looks, for all who listen.
pub(crate) struct EventFeed {
    punctual: Punctual,
    state: Mutex<State>,
    /// Held by whoever begins to look, so that of several that come at once one does.
    beginning: tokio::sync::Mutex<()>,
    behind_max: usize,
}

#[derive(Default)]
struct State {
    live: Option<broadcast::Sender<Arc<Batch>>>,
    cursor: String,
    count: u64,
    looked: Option<Instant>,
}

impl EventFeed {
    /// Those who listen may be so many looks behind.
    pub(crate) fn new(punctual: Punctual, behind_max: usize) -> Arc<Self> {
        Arc::new(Self { punctual, state: Mutex::default(), beginning: tokio::sync::Mutex::default(), behind_max })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens: from now on, or from where somebody had come to.
    pub(crate) async fn join(self: &Arc<Self>, cursor: Option<&str>) -> StoreResult<Listener> {
        let mut listener = self.listen().await?;
        if let Some(cursor) = cursor {
            cursor.clone_into(&mut listener.cursor);
            let Changes { events, cursor, missed } = self.look(Some(cursor.to_owned())).await?;
            listener.told = events.iter().map(|event| event.event.id).collect();
            listener.told_until = Instant::now();
            let (before, at, since) = (listener.count, listener.at, listener.told_until);
            listener.caught_up = Some(Arc::new(Batch { events, cursor, missed, before, at, since }));
        }
        Ok(listener)
    }

    async fn listen(self: &Arc<Self>) -> StoreResult<Listener> {
        let _beginning = self.beginning.lock().await;
        let nobody = self.state().live.is_none();
        if nobody {
            let looked = Instant::now();
            let cursor = self.look(None).await?.cursor;
            let live = Some(broadcast::Sender::new(self.behind_max));
            *self.state() = State { live, cursor, count: 0, looked: Some(looked) };
            tokio::spawn(look_on(Arc::downgrade(self)));
        }
        let state = self.state();
        let live = state.live.as_ref().map(broadcast::Sender::subscribe).ok_or(StoreError::Closed)?;
        Ok(Listener {
            live,
            caught_up: None,
            told: HashSet::new(),
            told_until: Instant::now(),
            cursor: state.cursor.clone(),
            count: state.count,
            at: self.punctual.store().now(),
        })
    }

    async fn look(&self, since: Option<String>) -> StoreResult<Changes> {
        self.punctual.store().changes(since, LOOK_MAX_EVENTS).await
    }

    /// Brings what has come since the look before. What nobody has heard of yet is not worth a word.
    async fn bring(&self) -> StoreResult<()> {
        let (cursor, since) = {
            let state = self.state();
            (state.cursor.clone(), state.looked)
        };
        let (looked, at) = (Instant::now(), self.punctual.store().now());
        let Changes { events, cursor, missed } = self.look(Some(cursor)).await?;
        let mut state = self.state();
        let (before, since) = (state.count, since.unwrap_or(looked));
        state.count += events.len() as u64;
        state.cursor.clone_from(&cursor);
        state.looked = Some(looked);
        if let Some(live) = state.live.as_ref().filter(|_| missed || !events.is_empty()) {
            let _ = live.send(Arc::new(Batch { events, cursor, missed, before, at, since }));
        }
        Ok(())
    }

    /// Whether to go on. Whoever comes at this moment waits until it is decided.
    async fn anybody_listens(&self) -> bool {
        let _beginning = self.beginning.lock().await;
        let mut state = self.state();
        if state.live.as_ref().is_some_and(|live| live.receiver_count() > 0) {
            return true;
        }
        state.live = None;
        false
    }
}

async fn look_on(follower: Weak<EventFeed>) {
    loop {
        time::sleep(LOOK_EVERY).await;
        let Some(follower) = follower.upgrade() else { return };
        if !follower.anybody_listens().await {
            return;
        }
        let began = Instant::now();
        if let Err(error) = follower.bring().await {
            tracing::warn!(%error, "cannot look at what happens to jobs; it will be tried again");
        }
        let rest = (began.elapsed() * REST).saturating_sub(LOOK_EVERY);
        drop(follower);
        time::sleep(rest).await;
    }
}

/// Somebody who listens.
#[derive(Debug)]
pub(crate) struct Listener {
    live: broadcast::Receiver<Arc<Batch>>,
    /// What had happened while they were away.
    caught_up: Option<Arc<Batch>>,
    /// What of that may come again, and when it was looked at.
    told: HashSet<EventId>,
    told_until: Instant,
    /// Where they go on from if they go away.
    pub(crate) cursor: String,
    /// The events that were brought until then, whether they heard of them or not.
    count: u64,
    at: Timestamp,
}

/// What a listener hears.
#[derive(Debug)]
pub(crate) struct Heard {
    /// What is gone, as they were too slow: so many events, since then.
    pub(crate) lost: Option<(u64, Timestamp)>,
    batch: Arc<Batch>,
    /// Those of the batch that they have not heard of.
    new: Vec<usize>,
}

impl Heard {
    pub(crate) fn events(&self) -> impl Iterator<Item = &JobEvent> {
        self.new.iter().filter_map(|place| self.batch.events.get(*place))
    }

    /// More happened at this time than can be told.
    pub(crate) fn too_much(&self) -> Option<Timestamp> {
        self.batch.missed.then_some(self.batch.at)
    }
}

impl Listener {
    /// The next thing. Whoever stops waiting misses nothing.
    pub(crate) async fn next(&mut self) -> Heard {
        if let Some(batch) = self.caught_up.take() {
            return Heard { lost: None, new: (0..batch.events.len()).collect(), batch };
        }
        loop {
            match self.live.recv().await {
                Ok(batch) => return self.hear(batch),
                // How many are gone is known once the next one is here.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    fn hear(&mut self, batch: Arc<Batch>) -> Heard {
        let lost = batch.before.saturating_sub(self.count);
        let lost = (lost > 0).then_some((lost, self.at));
        self.count = batch.before + batch.events.len() as u64;
        self.at = batch.at;
        if batch.since >= self.told_until {
            self.told = HashSet::new();
        }
        let is_new = |place: &usize| !self.told.contains(&batch.events[*place].event.id);
        let new = (0..batch.events.len()).filter(is_new).collect();
        Heard { lost, batch, new }
    }

    /// They have been told what they heard. What they knew all of already does not lead back to where it was looked at.
    pub(crate) fn has_heard(&mut self, heard: &Heard) {
        if self.told.is_empty() || !heard.new.is_empty() || heard.batch.events.is_empty() {
            self.cursor.clone_from(&heard.batch.cursor);
        }
    }
}
