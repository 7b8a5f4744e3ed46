//! Queues: paused, resumed, limited, and what their jobs are by default.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{
    Error, JobDefaults, Limits, Queue, QueueEvent, QueueSave, QueueSettings, Status, StoreError,
    queue::{check_name, check_pattern, fits},
};
use serde::Serialize;

use super::{Admin, is_live};

/// How often a change is tried again because somebody else changed the queue meanwhile.
const TRIES_MAX: usize = 20;
/// Events that a queue's detail shows.
const EVENTS_SHOWN: usize = 20;

/// A queue: what was said of it, and what stands in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueView {
    /// Its name.
    pub name: String,
    /// What was said of it.
    #[serde(flatten)]
    pub settings: QueueSettings,
    /// How many jobs stand in it, by status; only what is there.
    pub jobs: BTreeMap<Status, u64>,
    /// Live workers that serve it.
    pub workers: u64,
}

/// A queue with its story.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueDetail {
    /// The queue.
    #[serde(flatten)]
    pub queue: QueueView,
    /// What was done to it, latest first.
    pub events: Vec<QueueEvent>,
}

impl Admin {
    /// All queues that hold jobs or of which something was said, by name.
    pub async fn queues(&self) -> Result<Vec<QueueView>, Error> {
        let (overview, now) = (self.overview().await?, self.punctual.store().now());
        let said: BTreeMap<String, Queue> =
            self.punctual.store().queues().await?.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
        let live: Vec<_> = self.workers().await?.into_iter().filter(|worker| is_live(worker, now)).collect();
        let names: BTreeSet<String> = overview.queues.keys().chain(said.keys()).cloned().collect();
        let view = |name: String| QueueView {
            settings: said.get(&name).map(|queue| queue.settings.clone()).unwrap_or_default(),
            jobs: overview.queues.get(&name).cloned().unwrap_or_default(),
            workers: live
                .iter()
                .filter(|worker| worker.beat.queues.is_empty() || worker.beat.queues.contains(&name))
                .count() as u64,
            name,
        };
        Ok(names.into_iter().map(view).collect())
    }

    /// A queue with its story. One that nobody has heard of is empty.
    pub async fn queue(&self, name: &str) -> Result<QueueDetail, Error> {
        check_name(name)?;
        let known = self.queues().await?.into_iter().find(|queue| queue.name == name);
        let unknown = || QueueView {
            name: name.to_owned(),
            settings: QueueSettings::default(),
            jobs: BTreeMap::new(),
            workers: 0,
        };
        let events = self.punctual.store().queue_events(name.to_owned(), EVENTS_SHOWN).await?;
        Ok(QueueDetail { queue: known.unwrap_or_else(unknown), events })
    }

    /// Starts nothing of a queue until it is resumed; what runs goes on. The queue need not have been heard of.
    pub async fn pause_queue(&self, name: &str) -> Result<(), Error> {
        self.change_queue(name, "paused", |settings| settings.paused = true).await
    }

    /// Starts jobs of a queue again.
    pub async fn resume_queue(&self, name: &str) -> Result<(), Error> {
        self.change_queue(name, "resumed", |settings| settings.paused = false).await
    }

    /// The queues there are whose names fit a pattern, in which `*` stands for any text and `?` for any one character.
    pub async fn matching_queues(&self, pattern: &str) -> Result<Vec<String>, Error> {
        check_pattern(pattern)?;
        let names = self.queues().await?.into_iter().map(|queue| queue.name);
        Ok(names.filter(|name| fits(pattern, name)).collect())
    }

    /// Says what the jobs of a queue are if they do not say otherwise. It counts for jobs that are enqueued from then
    /// on; in other processes within five seconds.
    pub async fn set_queue_defaults(&self, name: &str, defaults: JobDefaults) -> Result<(), Error> {
        defaults.check()?;
        self.change_queue(name, "defaults changed", |settings| settings.defaults = defaults.clone()).await
    }

    /// Says how many jobs of a queue may run at once and start in a time, in all workers together. It counts from the
    /// next claim on.
    pub async fn set_queue_limits(&self, name: &str, limits: Limits) -> Result<(), Error> {
        self.change_queue_limits(name, |known| known.clone_from(&limits)).await
    }

    /// The same, starting from what was said before.
    pub async fn change_queue_limits(&self, name: &str, change: impl Fn(&mut Limits)) -> Result<(), Error> {
        self.change_queue(name, "limits changed", |settings| change(&mut settings.limits)).await
    }

    async fn change_queue(&self, name: &str, action: &str, change: impl Fn(&mut QueueSettings)) -> Result<(), Error> {
        check_name(name)?;
        let store = self.punctual.store();
        for _ in 0..TRIES_MAX {
            let known = store.queues().await?.into_iter().find(|queue| queue.name == name);
            let (before, revision) = known.map_or_else(Default::default, |queue| (queue.settings, queue.revision));
            let mut settings: QueueSettings = before.clone();
            change(&mut settings);
            if settings == before {
                return Ok(());
            }
            settings.limits.check()?;
            let (actor, action) = (self.actor.clone(), action.to_owned());
            if store.save_queue(QueueSave { name: name.to_owned(), settings, revision, actor, action }).await? {
                self.punctual.queues.forget();
                return Ok(());
            }
        }
        Err(StoreError::Busy { waited_ms: 0 }.into())
    }
}
