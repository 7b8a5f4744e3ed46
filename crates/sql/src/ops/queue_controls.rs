//! Paused queues and limits, as read by claims.

use std::collections::{HashMap, HashSet};

use punctual_core::{Limits, QueueSettings, StoreResult};

use super::{ready::Lane, rows, statements as sql};
use crate::db::Db;

/// Paused queues and limits.
#[derive(Debug, Default)]
pub(crate) struct QueueControls {
    /// Queues whose jobs may not start.
    pub(crate) paused: HashSet<String>,
    /// The limits of the queues that have any.
    pub(crate) limits: HashMap<String, Limits>,
}

impl QueueControls {
    pub(crate) fn read(db: &dyn Db) -> StoreResult<Self> {
        let mut controls = Self::default();
        db.read(sql::LIMITED_QUEUES, &[], &mut |row| {
            let (name, settings): (String, QueueSettings) = (row.get(0)?, rows::document(row, 2)?.unwrap_or_default());
            if settings.paused {
                controls.paused.insert(name.clone());
            }
            if settings.limits != Limits::default() {
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

    /// Whether jobs of a queue are limited even without a key.
    pub(crate) fn guards(&self, queue: &str) -> bool {
        self.limits.get(queue).is_some_and(Limits::guard_all)
    }
}
