//! Paused queues and limits, as read by claims.

use std::collections::{HashMap, HashSet};

use punctual_core::{Limits, StoreResult};

use super::{ready::Lane, statements as sql, stored_settings};
use crate::db::Db;

/// Paused queues and limits.
#[derive(Debug, Default)]
pub(crate) struct QueueControls {
    /// Queues whose jobs may not start.
    pub(crate) paused: HashSet<String>,
    /// The limits of the queues that have any.
    pub(crate) limits: HashMap<String, Limits>,
    /// Queues whose limits cannot be read; their jobs may not start.
    unreadable: HashSet<String>,
}

impl QueueControls {
    pub(crate) fn read(db: &dyn Db) -> StoreResult<Self> {
        let mut controls = Self::default();
        db.read(sql::LIMITED_QUEUES, &[], &mut |row| {
            let name: String = row.get(0)?;
            let settings = stored_settings::parse(&name, row.get(2)?, (row.get(1)?, true));
            if !settings.starts_jobs() {
                controls.paused.insert(name.clone());
            }
            if settings.unreadable.is_some() {
                controls.unreadable.insert(name);
            } else if settings.limits != Limits::default() {
                controls.limits.insert(name, settings.limits);
            }
            Ok(true)
        })?;
        Ok(controls)
    }

    /// The lanes whose queues are not paused.
    pub(crate) fn served(&self, lanes: Vec<Lane>) -> Vec<Lane> {
        lanes.into_iter().filter(|lane| !self.paused.contains(&lane.queue)).collect()
    }

    pub(crate) fn limits(&self, queue: &str) -> &Limits {
        self.limits.get(queue).unwrap_or(Limits::none())
    }

    /// Whether the limits of a queue cannot be read.
    pub(crate) fn is_unreadable(&self, queue: &str) -> bool {
        self.unreadable.contains(queue)
    }

    /// Whether jobs of a queue are limited even without a key, or may be.
    pub(crate) fn guards(&self, queue: &str) -> bool {
        self.is_unreadable(queue) || self.limits.get(queue).is_some_and(Limits::guard_all)
    }
}
