//! Notifications from jobs to users: stored first, then delivered to subscribers. A subscription also delivers the
//! messages that were stored while the user was away.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use punctual_core::{Error, Json, NewNotification, Notification, Store, limits};
use serde::Serialize;
use tokio::{
    sync::{Notify, broadcast, watch},
    task::JoinHandle,
    time,
};

use crate::Punctual;

/// How often to query for new messages if no hint arrives.
const POLL_PERIOD: Duration = Duration::from_millis(500);
/// Minimum time between two queries: one query delivers all messages that arrived meanwhile.
const PAUSE: Duration = Duration::from_millis(5);
/// Number of messages by which a subscriber may lag before it reads them from the store. Small, since the buffer exists
/// per user and there may be many users.
const BEHIND_MAX_COUNT: usize = 32;
/// Maximum number of messages per query.
const PAGE_MAX_COUNT: usize = 500;

impl Punctual {
    /// Sends a notification to a user. When this returns, it is durable.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
    /// # let punctual = punctual_client::Punctual::connect(&url).await?;
    /// let mut ada = punctual.subscribe("ada", Some(0)).await?;
    /// punctual.notify("ada", &"your report is ready").await?;
    /// let notification = ada.next().await?;
    /// assert_eq!(notification.message.as_str(), "\"your report is ready\"");
    /// // A client that reconnects passes the number of its last message, and receives those after it.
    /// assert!(punctual.notifications("ada", notification.id, 100).await?.is_empty());
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn notify(&self, user: impl Into<String>, message: &impl Serialize) -> Result<Notification, Error> {
        self.send_notification(NewNotification { user_id: Some(user.into()), message: json(message)?, job: None }).await
    }

    /// Sends a notification to all users. When this returns, it is durable.
    pub async fn broadcast(&self, message: &impl Serialize) -> Result<Notification, Error> {
        self.send_notification(NewNotification { user_id: None, message: json(message)?, job: None }).await
    }

    /// Sends a notification.
    pub async fn send_notification(&self, message: NewNotification) -> Result<Notification, Error> {
        message.check()?;
        let stored = self.store().notify(vec![message]).await?.pop();
        let stored = stored.ok_or_else(|| punctual_core::Invalid::new("message", "the store returned no answer"))?;
        self.hub.deliver(&stored);
        Ok(stored)
    }

    /// Returns the messages to a user, including those to all users, that follow the message with the number `after`:
    /// oldest first, at most `limit`.
    pub async fn notifications(&self, user: &str, after: u64, limit: usize) -> Result<Vec<Notification>, Error> {
        let limit = limit.min(limits::PAGE_MAX_NOTIFICATIONS);
        Ok(self.store().notifications(Some(user.to_owned()), after, limit).await?)
    }

    /// Subscribes to the messages of a user: from the message after the number `after`, or only to new messages if that
    /// is `None`.
    pub async fn subscribe(&self, user: impl Into<String>, after: Option<u64>) -> Result<Subscription, Error> {
        let last = match after {
            Some(last) => last,
            None => self.store().last_notification().await?,
        };
        let user = user.into();
        let live = self.hub.listen(&user);
        Ok(Subscription { hub: Arc::clone(&self.hub), user, last, live, behind: true, ready: VecDeque::new() })
    }

    /// Registers a callback for every message that is sent through this connection, called once the message is stored.
    /// Only the first callback is used.
    pub fn on_notification(&self, callback: impl Fn(&Notification) + Send + Sync + 'static) {
        let _ = self.hub.callback.set(Box::new(callback));
    }

    /// Triggers a query for messages that another process may have stored, so that subscribers need not wait for the
    /// next one.
    pub fn poll_notifications(&self) {
        self.hub.poll_now.notify_one();
    }
}

fn json(message: &impl Serialize) -> Result<Json, Error> {
    Json::of(message).map_err(|error| punctual_core::Invalid::new("message", format!("is not JSON: {error}")).into())
}

type Live = broadcast::Sender<Arc<Notification>>;
type Callback = Box<dyn Fn(&Notification) + Send + Sync>;

/// Delivers new messages to the subscribers in this process. One query serves all of them.
pub(crate) struct Hub {
    store: Arc<dyn Store>,
    state: Mutex<State>,
    /// Triggers a query.
    poll_now: Notify,
    /// The last message that was delivered; `None` while no query has run.
    delivered: watch::Sender<Option<u64>>,
    callback: OnceLock<Callback>,
}

#[derive(Default)]
struct State {
    /// Subscribers, by user.
    users: HashMap<String, Live>,
    /// The task that queries for new messages, unless it has ended.
    poller: Option<JoinHandle<()>>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("users", &self.state().users.len()).finish()
    }
}

impl Hub {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            state: Mutex::default(),
            poll_now: Notify::new(),
            delivered: watch::Sender::new(None),
            callback: OnceLock::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, notification: &Notification) {
        self.poll_now.notify_one();
        if let Some(callback) = self.callback.get() {
            callback(notification);
        }
    }

    fn listen(self: &Arc<Self>, user: &str) -> broadcast::Receiver<Arc<Notification>> {
        let mut state = self.state();
        let live = state.users.entry(user.to_owned()).or_insert_with(|| broadcast::Sender::new(BEHIND_MAX_COUNT));
        let receiver = live.subscribe();
        if state.poller.as_ref().is_none_or(JoinHandle::is_finished) {
            self.delivered.send_replace(None);
            state.poller = Some(tokio::spawn(poll_while_subscribed(Arc::downgrade(self))));
        }
        receiver
    }

    /// Delivers a message to the subscribers it is for.
    fn bring(&self, message: Notification) {
        let (state, message) = (self.state(), Arc::new(message));
        let send = |live: &Live| drop(live.send(Arc::clone(&message)));
        match &message.user_id {
            Some(user) => state.users.get(user).into_iter().for_each(send),
            None => state.users.values().for_each(send),
        }
    }

    /// Removes users without subscribers; returns whether any subscriber is left.
    fn has_subscribers(&self) -> bool {
        let mut state = self.state();
        state.users.retain(|_, live| live.receiver_count() > 0);
        if state.users.is_empty() {
            state.poller = None;
        }
        !state.users.is_empty()
    }
}

/// Queries for new messages while there are subscribers.
async fn poll_while_subscribed(hub: Weak<Hub>) {
    let Some(mut watch) = hub.upgrade().map(|hub| hub.store.watch()) else { return };
    while let Some(own) = hub.upgrade() {
        if !own.has_subscribers() {
            return;
        }
        if let Err(error) = poll(&own).await {
            tracing::warn!(%error, "cannot read notifications; will retry");
        }
        tokio::select! {
            () = own.poll_now.notified() => {}
            () = watch.changed() => {}
            () = time::sleep(POLL_PERIOD) => {}
        }
        drop(own);
        time::sleep(PAUSE).await;
    }
}

/// Delivers the messages since the last query. The first query only records the position: subscribers read earlier
/// messages from the store themselves.
async fn poll(hub: &Hub) -> Result<(), Error> {
    let known = *hub.delivered.borrow();
    let Some(mut last) = known else {
        let last = hub.store.last_notification().await?;
        hub.delivered.send_replace(Some(last));
        return Ok(());
    };
    loop {
        let new = hub.store.notifications(None, last, PAGE_MAX_COUNT).await?;
        let all = new.len() < PAGE_MAX_COUNT;
        for message in new {
            last = message.id;
            hub.bring(message);
        }
        hub.delivered.send_replace(Some(last));
        if all {
            return Ok(());
        }
    }
}

/// A subscription to the messages of one user. It delivers every message once, in order, however slow the receiver is.
#[derive(Debug)]
pub struct Subscription {
    hub: Arc<Hub>,
    user: String,
    /// The last message that was delivered or that precedes the subscription.
    last: u64,
    live: broadcast::Receiver<Arc<Notification>>,
    /// Whether messages in the store may have been missed by the live channel.
    behind: bool,
    ready: VecDeque<Notification>,
}

impl Subscription {
    /// Returns the next message to this user or to all users. Cancel safe: a message that is not returned is returned
    /// by the next call.
    pub async fn next(&mut self) -> Result<Notification, Error> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                self.last = message.id;
                return Ok(message);
            }
            if self.behind {
                self.catch_up().await?;
                continue;
            }
            match self.live.recv().await {
                Ok(message) if message.id > self.last => {
                    self.ready.push_back(Notification::clone(&message));
                }
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => self.behind = true,
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Reads from the store the messages that the live channel does not deliver. It first waits until the position of
    /// the live channel is known, so that no message falls between the two.
    async fn catch_up(&mut self) -> Result<(), Error> {
        let _ = self.hub.delivered.subscribe().wait_for(Option::is_some).await;
        let missed = self.hub.store.notifications(Some(self.user.clone()), self.last, PAGE_MAX_COUNT).await?;
        self.behind = missed.len() == PAGE_MAX_COUNT;
        self.ready.extend(missed);
        Ok(())
    }
}
