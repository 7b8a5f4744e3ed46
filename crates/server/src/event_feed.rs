//! Distributes job events to the subscribers of the stream. One poll of the store serves all of them; without
//! subscribers the store is not polled.

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

/// Minimum interval between polls.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// After a slow poll, the pause is at least this many times the poll's duration, so that the store has time for jobs.
const PAUSE_FACTOR: u32 = 9;
/// Maximum events of one poll, and of the catch-up of a subscriber that reconnects. If there are more, the subscriber
/// is notified that it missed events.
const POLL_MAX_EVENTS: usize = 5_000;

/// The result of one poll.
#[derive(Debug)]
struct Batch {
    events: Vec<JobEvent>,
    /// The cursor after this batch.
    cursor: String,
    /// There were more events than one poll returns.
    missed: bool,
    /// Number of events in all batches before this one, since polling started.
    before: u64,
    at: Timestamp,
    /// Events that were visible before this instant are not in the batch.
    since: Instant,
}

/// Polls the store for all subscribers.
pub(crate) struct EventFeed {
    punctual: Punctual,
    state: Mutex<FeedState>,
    /// Locked while polling is started or stopped, so that concurrent subscribers start one poller.
    lifecycle: tokio::sync::Mutex<()>,
    behind_max: usize,
}

#[derive(Default)]
struct FeedState {
    live: Option<broadcast::Sender<Arc<Batch>>>,
    cursor: String,
    count: u64,
    polled_at: Option<Instant>,
}

impl EventFeed {
    /// `behind_max` is the number of batches that a subscriber may be behind.
    pub(crate) fn new(punctual: Punctual, behind_max: usize) -> Arc<Self> {
        Arc::new(Self { punctual, state: Mutex::default(), lifecycle: tokio::sync::Mutex::default(), behind_max })
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to events from now on, or after a cursor.
    pub(crate) async fn subscribe(self: &Arc<Self>, cursor: Option<&str>) -> StoreResult<Listener> {
        let mut listener = self.listen().await?;
        if let Some(cursor) = cursor {
            cursor.clone_into(&mut listener.cursor);
            let Changes { events, cursor, missed } = self.changes(Some(cursor.to_owned())).await?;
            listener.sent = events.iter().map(|event| event.event.id).collect();
            listener.sent_until = Instant::now();
            let (before, at, since) = (listener.count, listener.at, listener.sent_until);
            listener.caught_up = Some(Arc::new(Batch { events, cursor, missed, before, at, since }));
        }
        Ok(listener)
    }

    async fn listen(self: &Arc<Self>) -> StoreResult<Listener> {
        let _guard = self.lifecycle.lock().await;
        let is_idle = self.state().live.is_none();
        if is_idle {
            let polled_at = Instant::now();
            let cursor = self.changes(None).await?.cursor;
            let live = Some(broadcast::Sender::new(self.behind_max));
            *self.state() = FeedState { live, cursor, count: 0, polled_at: Some(polled_at) };
            tokio::spawn(poll_loop(Arc::downgrade(self)));
        }
        let state = self.state();
        let live = state.live.as_ref().map(broadcast::Sender::subscribe).ok_or(StoreError::Closed)?;
        Ok(Listener {
            live,
            caught_up: None,
            sent: HashSet::new(),
            sent_until: Instant::now(),
            cursor: state.cursor.clone(),
            count: state.count,
            at: self.punctual.store().now(),
        })
    }

    async fn changes(&self, since: Option<String>) -> StoreResult<Changes> {
        self.punctual.store().changes(since, POLL_MAX_EVENTS).await
    }

    /// Polls the store and sends new events to the subscribers. An empty batch is not sent.
    async fn poll(&self) -> StoreResult<()> {
        let (cursor, since) = {
            let state = self.state();
            (state.cursor.clone(), state.polled_at)
        };
        let (polled_at, at) = (Instant::now(), self.punctual.store().now());
        let Changes { events, cursor, missed } = self.changes(Some(cursor)).await?;
        let mut state = self.state();
        let (before, since) = (state.count, since.unwrap_or(polled_at));
        state.count += events.len() as u64;
        state.cursor.clone_from(&cursor);
        state.polled_at = Some(polled_at);
        if let Some(live) = state.live.as_ref().filter(|_| missed || !events.is_empty()) {
            let _ = live.send(Arc::new(Batch { events, cursor, missed, before, at, since }));
        }
        Ok(())
    }

    /// Whether to continue polling. A subscriber that joins meanwhile waits for the decision.
    async fn has_subscribers(&self) -> bool {
        let _guard = self.lifecycle.lock().await;
        let mut state = self.state();
        if state.live.as_ref().is_some_and(|live| live.receiver_count() > 0) {
            return true;
        }
        state.live = None;
        false
    }
}

async fn poll_loop(feed: Weak<EventFeed>) {
    loop {
        time::sleep(POLL_INTERVAL).await;
        let Some(feed) = feed.upgrade() else { return };
        if !feed.has_subscribers().await {
            return;
        }
        let began = Instant::now();
        if let Err(error) = feed.poll().await {
            tracing::warn!(%error, "cannot read job events; retrying");
        }
        let pause = (began.elapsed() * PAUSE_FACTOR).saturating_sub(POLL_INTERVAL);
        drop(feed);
        time::sleep(pause).await;
    }
}

/// A subscriber to job events.
#[derive(Debug)]
pub(crate) struct Listener {
    live: broadcast::Receiver<Arc<Batch>>,
    /// The events between the subscriber's cursor and now, until they are delivered.
    caught_up: Option<Arc<Batch>>,
    /// Ids of caught-up events, which the next batches may repeat, and when they were read.
    sent: HashSet<EventId>,
    sent_until: Instant,
    /// The cursor from which the subscriber can resume.
    pub(crate) cursor: String,
    /// Number of events polled so far, whether they were delivered to this subscriber or not.
    count: u64,
    at: Timestamp,
}

/// The next events for a subscriber.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The number of events lost because the subscriber was too slow, and the time since when.
    pub(crate) lost: Option<(u64, Timestamp)>,
    batch: Arc<Batch>,
    /// Indexes of the events in the batch that were not delivered before.
    new: Vec<usize>,
}

impl Delivery {
    pub(crate) fn events(&self) -> impl Iterator<Item = &JobEvent> {
        self.new.iter().filter_map(|index| self.batch.events.get(*index))
    }

    /// The time of the batch, if there were more events than one poll returns.
    pub(crate) fn truncated_at(&self) -> Option<Timestamp> {
        self.batch.missed.then_some(self.batch.at)
    }
}

impl Listener {
    /// The next batch. Cancel safe: no events are lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Delivery {
        if let Some(batch) = self.caught_up.take() {
            return Delivery { lost: None, new: (0..batch.events.len()).collect(), batch };
        }
        loop {
            match self.live.recv().await {
                Ok(batch) => return self.delivery(batch),
                // The number of lost batches is known when the next one arrives.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    fn delivery(&mut self, batch: Arc<Batch>) -> Delivery {
        let lost = batch.before.saturating_sub(self.count);
        let lost = (lost > 0).then_some((lost, self.at));
        self.count = batch.before + batch.events.len() as u64;
        self.at = batch.at;
        if batch.since >= self.sent_until {
            self.sent = HashSet::new();
        }
        let is_new = |index: &usize| !self.sent.contains(&batch.events[*index].event.id);
        let new = (0..batch.events.len()).filter(is_new).collect();
        Delivery { lost, batch, new }
    }

    /// Advances the cursor after delivery. A batch with only known events does not, because its cursor may precede that
    /// of the catch-up.
    pub(crate) fn advance(&mut self, delivery: &Delivery) {
        if self.sent.is_empty() || !delivery.new.is_empty() || delivery.batch.events.is_empty() {
            self.cursor.clone_from(&delivery.batch.cursor);
        }
    }
}
