//! Worker processes under one supervisor.
//!
//! | question | file |
//! |---|---|
//! | what do they say to each other? | `message` |
//! | who starts them, and again? | [`Supervisor`], `child`, `fleet` |
//! | what does a worker process do beside its work? | [`Supervised`] |

mod child;
mod fleet;
mod message;
mod supervised;
mod supervisor;

pub use supervised::Supervised;
pub use supervisor::{RunningSupervisor, Supervisor};
