//! How a SQLite file is opened.

use std::{path::PathBuf, sync::Arc};

use punctual_core::{Clock, Create};

use super::clock::MachineClock;

/// How a SQLite file is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file.
    pub path: PathBuf,
    /// What opening may create.
    pub create: Create,
    /// When a commit counts as durable.
    pub synchronous: Synchronous,
    /// Where the time comes from: the machine's clock, unless a test sets its own.
    pub clock: Arc<dyn Clock>,
}

/// When a commit counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Once it is on disk: survives a power failure. The default.
    #[default]
    Full,
    /// Once the operating system has it: survives a crash of the process, not a power failure.
    Normal,
}

impl Options {
    /// The file at `path`, durable, with the machine's clock.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (synchronous, clock) = (Synchronous::default(), Arc::new(MachineClock::new()));
        Self { path: path.into(), create: Create::default(), synchronous, clock }
    }

    /// Uses another clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }
}
