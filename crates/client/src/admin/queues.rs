//! Queues: pause, resume, limits and job defaults.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{
    Error, JobDefaults, Limits, Queue, QueueEvent, QueueSave, QueueSettings, Status, StoreError,
    queue::{check_name, check_pattern, fits},
};
use serde::{Deserialize, Serialize};

use super::{Admin, is_live};

/// Number of times that a change is retried because another process changed the queue meanwhile.
const TRIES_MAX: usize = 20;
/// Number of events in a queue's detail.
const EVENTS_SHOWN: usize = 20;

/// A queue: its settings and its job counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueView {
    /// Its name.
    pub name: String,
    /// Its settings.
    #[serde(flatten)]
    pub settings: QueueSettings,
    /// Why its stored settings cannot be read; until new ones are saved, no job of it starts if they may limit it.
    pub problem: Option<String>,
    /// Number of jobs by status, without entries for zero.
    pub jobs: BTreeMap<Status, u64>,
    /// Number of live workers that serve it.
    pub workers: u64,
}

/// A queue with its event history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueDetail {
    /// The queue.
    #[serde(flatten)]
    pub queue: QueueView,
    /// What was done to it, latest first.
    pub events: Vec<QueueEvent>,
}

impl Admin {
    /// Returns all queues that have jobs or settings, by name.
    pub async fn queues(&self) -> Result<Vec<QueueView>, Error> {
        let (overview, now) = (self.overview().await?, self.punctual.store().now());
        let saved: BTreeMap<String, Queue> =
            self.punctual.store().queues().await?.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
        let live: Vec<_> = self.workers().await?.into_iter().filter(|worker| is_live(worker, now)).collect();
        let names: BTreeSet<String> = overview.queues.keys().chain(saved.keys()).cloned().collect();
        let view = |name: String| {
            let settings = saved.get(&name).map(|queue| queue.settings.clone()).unwrap_or_default();
            QueueView {
                problem: settings.unreadable.as_ref().map(|unreadable| unreadable.problem.clone()),
                settings,
                jobs: overview.queues.get(&name).cloned().unwrap_or_default(),
                workers: live.iter().filter(|worker| worker.serves(&name)).count() as u64,
                name,
            }
        };
        Ok(names.into_iter().map(view).collect())
    }

    /// Returns a queue with its event history; an unknown queue is returned empty.
    pub async fn queue(&self, name: &str) -> Result<QueueDetail, Error> {
        check_name(name)?;
        let known = self.queues().await?.into_iter().find(|queue| queue.name == name);
        let unknown = || QueueView {
            name: name.to_owned(),
            settings: QueueSettings::default(),
            problem: None,
            jobs: BTreeMap::new(),
            workers: 0,
        };
        let events = self.punctual.store().queue_events(name.to_owned(), EVENTS_SHOWN).await?;
        Ok(QueueDetail { queue: known.unwrap_or_else(unknown), events })
    }

    /// Pauses a queue: no job of it starts until the queue is resumed; running jobs continue. The queue need not exist
    /// yet.
    pub async fn pause_queue(&self, name: &str) -> Result<(), Error> {
        self.change_queue(name, "paused", |settings| settings.paused = true).await
    }

    /// Resumes a queue.
    pub async fn resume_queue(&self, name: &str) -> Result<(), Error> {
        self.change_queue(name, "resumed", |settings| settings.paused = false).await
    }

    /// Returns the existing queues whose names match a pattern: `*` matches any text, `?` any one character.
    pub async fn matching_queues(&self, pattern: &str) -> Result<Vec<String>, Error> {
        check_pattern(pattern)?;
        let names = self.queues().await?.into_iter().map(|queue| queue.name);
        Ok(names.filter(|name| fits(pattern, name)).collect())
    }

    /// Sets the default options of a queue's jobs. They apply to jobs that are enqueued from now on; in other
    /// processes, within five seconds.
    pub async fn set_queue_defaults(&self, name: &str, defaults: JobDefaults) -> Result<(), Error> {
        defaults.check()?;
        self.change_queue(name, "defaults changed", |settings| settings.defaults = defaults.clone()).await
    }

    /// Sets how many jobs of a queue may run at once and start per period, in all workers together. The limits apply
    /// from the next claim on.
    pub async fn set_queue_limits(&self, name: &str, limits: Limits) -> Result<(), Error> {
        self.change_queue_limits(name, |known| known.clone_from(&limits)).await
    }

    /// Changes the limits of a queue, starting from the current ones.
    pub async fn change_queue_limits(&self, name: &str, change: impl Fn(&mut Limits)) -> Result<(), Error> {
        self.change_queue(name, "limits changed", |settings| change(&mut settings.limits)).await
    }

    async fn change_queue(&self, name: &str, action: &str, change: impl Fn(&mut QueueSettings)) -> Result<(), Error> {
        check_name(name)?;
        let store = self.punctual.store();
        for _ in 0..TRIES_MAX {
            let known = store.queues().await?.into_iter().find(|queue| queue.name == name);
            let (before, revision) = known.map_or_else(Default::default, |queue| (queue.settings, queue.revision));
            // Settings that cannot be read are replaced by the defaults with this change.
            let mut settings = QueueSettings { unreadable: None, ..before.clone() };
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
