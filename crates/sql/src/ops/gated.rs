//! What claims must know of queues.

use std::collections::{HashMap, HashSet};

use punctual_core::{Limits, QueueSettings, StoreResult};

use super::{rows, statements as sql};
use crate::db::Db;

/// What claims must know of queues.
#[derive(Debug, Default)]
pub(crate) struct Gated {
    /// Those that nothing is to be started of.
    pub(crate) paused: HashSet<String>,
    /// How many jobs may start of those that are limited.
    pub(crate) limits: HashMap<String, Limits>,
}

impl Gated {
    pub(crate) fn read(db: &dyn Db) -> StoreResult<Self> {
        let mut gated = Self::default();
        db.read(sql::GATED_QUEUES, &[], &mut |row| {
            let (name, settings): (String, QueueSettings) = (row.get(0)?, rows::document(row, 2)?.unwrap_or_default());
            if settings.paused {
                gated.paused.insert(name.clone());
            }
            if settings.limits != Limits::default() {
                gated.limits.insert(name, settings.limits);
            }
            Ok(true)
        })?;
        Ok(gated)
    }

    pub(crate) fn limits(&self, queue: &str) -> &Limits {
        self.limits.get(queue).unwrap_or(Limits::none())
    }

    /// Whether jobs of a queue have to pass a gate even without a key.
    pub(crate) fn guards(&self, queue: &str) -> bool {
        self.limits.get(queue).is_some_and(Limits::guard_all)
    }
}
