//! What jobs tell people: stored first, then brought to whoever listens. What a user misses while away is there when
//! they come back.

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

/// How often to look for new messages when no hint comes.
const POLL_PERIOD: Duration = Duration::from_millis(500);
/// How long after a look the next one follows at the earliest: one brings all that has come meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Messages that a listener may be behind before it reads them from the store. Few: room is kept for them for each
/// user, of whom there may be many.
const BEHIND_MAX_COUNT: usize = 32;
/// Messages that one look reads.
const PAGE_MAX_COUNT: usize = 500;

impl Punctual {
    /// Tells a user something. When this returns, it is durable.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
    /// # let punctual = punctual_client::Punctual::connect(&url).await?;
    /// let mut ada = punctual.subscribe("ada", Some(0)).await?;
    /// punctual.notify("ada", &"your report is ready").await?;
    /// let told = ada.next().await?;
    /// assert_eq!(told.message.as_str(), "\"your report is ready\"");
    /// // Whoever comes back says what they have seen, and gets what came after it.
    /// assert!(punctual.notifications("ada", told.id, 100).await?.is_empty());
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn notify(&self, user: impl Into<String>, message: &impl Serialize) -> Result<Notification, Error> {
        self.tell(NewNotification { user_id: Some(user.into()), message: json(message)?, job: None }).await
    }

    /// Tells everybody something. When this returns, it is durable.
    pub async fn broadcast(&self, message: &impl Serialize) -> Result<Notification, Error> {
        self.tell(NewNotification { user_id: None, message: json(message)?, job: None }).await
    }

    /// Tells somebody something.
    pub async fn tell(&self, message: NewNotification) -> Result<Notification, Error> {
        message.check()?;
        let told = self.store().notify(vec![message]).await?.pop();
        let told = told.ok_or_else(|| punctual_core::Invalid::new("message", "the store answered for none"))?;
        self.hub.told(&told);
        Ok(told)
    }

    /// What a user was told after the message with that number, oldest first, at most `limit`; with what everybody was
    /// told.
    pub async fn notifications(&self, user: &str, after: u64, limit: usize) -> Result<Vec<Notification>, Error> {
        let limit = limit.min(limits::PAGE_MAX_NOTIFICATIONS);
        Ok(self.store().notifications(Some(user.to_owned()), after, limit).await?)
    }

    /// Listens to what a user is told: from the message after that number on, or from now on.
    pub async fn subscribe(&self, user: impl Into<String>, after: Option<u64>) -> Result<Subscription, Error> {
        let last = match after {
            Some(last) => last,
            None => self.store().last_notification().await?,
        };
        let user = user.into();
        let live = self.hub.listen(&user);
        Ok(Subscription { hub: Arc::clone(&self.hub), user, last, live, behind: true, ready: VecDeque::new() })
    }

    /// Has `ear` hear of everything that is told by way of this connection, once it is stored. Only the first ear
    /// counts.
    pub fn on_told(&self, ear: impl Fn(&Notification) + Send + Sync + 'static) {
        let _ = self.hub.ear.set(Box::new(ear));
    }

    /// Something may have been told by another process: those who listen need not wait for the next look.
    pub fn look_for_notifications(&self) {
        self.hub.look.notify_one();
    }
}

fn json(message: &impl Serialize) -> Result<Json, Error> {
    Json::of(message).map_err(|error| punctual_core::Invalid::new("message", format!("is not JSON: {error}")).into())
}

type Live = broadcast::Sender<Arc<Notification>>;
type Ear = Box<dyn Fn(&Notification) + Send + Sync>;

/// Brings new messages to those who listen in this process. One look at the store serves them all.
pub(crate) struct Hub {
    store: Arc<dyn Store>,
    state: Mutex<State>,
    /// There may be something new.
    look: Notify,
    /// The last message that was brought, while somebody looks for them.
    brought: watch::Sender<Option<u64>>,
    ear: OnceLock<Ear>,
}

#[derive(Default)]
struct State {
    /// Those who listen, by user.
    users: HashMap<String, Live>,
    /// Looks for new messages, unless it has broken off.
    looker: Option<JoinHandle<()>>,
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
            look: Notify::new(),
            brought: watch::Sender::new(None),
            ear: OnceLock::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self, told: &Notification) {
        self.look.notify_one();
        if let Some(ear) = self.ear.get() {
            ear(told);
        }
    }

    fn listen(self: &Arc<Self>, user: &str) -> broadcast::Receiver<Arc<Notification>> {
        let mut state = self.state();
        let live = state.users.entry(user.to_owned()).or_insert_with(|| broadcast::Sender::new(BEHIND_MAX_COUNT));
        let receiver = live.subscribe();
        if state.looker.as_ref().is_none_or(JoinHandle::is_finished) {
            self.brought.send_replace(None);
            state.looker = Some(tokio::spawn(look_on(Arc::downgrade(self))));
        }
        receiver
    }

    /// Brings a message to those who are to get it.
    fn bring(&self, message: Notification) {
        let (state, message) = (self.state(), Arc::new(message));
        let send = |live: &Live| drop(live.send(Arc::clone(&message)));
        match &message.user_id {
            Some(user) => state.users.get(user).into_iter().for_each(send),
            None => state.users.values().for_each(send),
        }
    }

    /// Forgets those who no longer listen; says whether anybody does.
    fn anybody_listens(&self) -> bool {
        let mut state = self.state();
        state.users.retain(|_, live| live.receiver_count() > 0);
        if state.users.is_empty() {
            state.looker = None;
        }
        !state.users.is_empty()
    }
}

/// Looks for new messages while anybody listens.
async fn look_on(hub: Weak<Hub>) {
    let Some(mut watch) = hub.upgrade().map(|hub| hub.store.watch()) else { return };
    while let Some(own) = hub.upgrade() {
        if !own.anybody_listens() {
            return;
        }
        if let Err(error) = look(&own).await {
            tracing::warn!(%error, "cannot look for notifications; it will be tried again");
        }
        tokio::select! {
            () = own.look.notified() => {}
            () = watch.changed() => {}
            () = time::sleep(POLL_PERIOD) => {}
        }
        drop(own);
        time::sleep(LOOK_EVERY).await;
    }
}

/// Brings what has come since the last look. The first one only notes from where on: what was there before, those who
/// listen read by themselves.
async fn look(hub: &Hub) -> Result<(), Error> {
    let known = *hub.brought.borrow();
    let Some(mut last) = known else {
        let last = hub.store.last_notification().await?;
        hub.brought.send_replace(Some(last));
        return Ok(());
    };
    loop {
        let new = hub.store.notifications(None, last, PAGE_MAX_COUNT).await?;
        let all = new.len() < PAGE_MAX_COUNT;
        for message in new {
            last = message.id;
            hub.bring(message);
        }
        hub.brought.send_replace(Some(last));
        if all {
            return Ok(());
        }
    }
}

/// What one listener hears: everything, once, in order, however slow it is.
#[derive(Debug)]
pub struct Subscription {
    hub: Arc<Hub>,
    user: String,
    /// The last that it heard, or was there before it began.
    last: u64,
    live: broadcast::Receiver<Arc<Notification>>,
    /// Whether there may be messages in the store that do not come live any more.
    behind: bool,
    ready: VecDeque<Notification>,
}

impl Subscription {
    /// The next message to this user or to everybody. A caller that stops waiting misses nothing: the next call brings
    /// it.
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

    /// Reads from the store what does not come live: only once it is known from where on that is so, lest something
    /// falls in between.
    async fn catch_up(&mut self) -> Result<(), Error> {
        let _ = self.hub.brought.subscribe().wait_for(Option::is_some).await;
        let missed = self.hub.store.notifications(Some(self.user.clone()), self.last, PAGE_MAX_COUNT).await?;
        self.behind = missed.len() == PAGE_MAX_COUNT;
        self.ready.extend(missed);
        Ok(())
    }
}
