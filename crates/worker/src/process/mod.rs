//! Worker processes under one supervisor.
//!
//! | question | file |
//! |---|---|
//! | which messages do they exchange? | `message` |
//! | how are they started and restarted? | `supervisor`: [`Supervisor`]; `child`, `fleet` |
//! | what does a worker process do in addition? | `supervised`: [`Supervised`] |

mod child;
mod fleet;
mod message;
mod supervised;
mod supervisor;

pub use supervised::Supervised;
pub use supervisor::{RunningSupervisor, Supervisor};
