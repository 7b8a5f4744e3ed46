//! The port in memory, written for readability: what every engine must do, regardless of speed.
//!
//! Files are named like those of the port; each also has the changes of the state that its operations make.
//!
//! | question | file |
//! |---|---|
//! | what is the state, and who holds it? | `state`, `store` |
//! | how are jobs enqueued and changed? | `jobs` |
//! | how are jobs claimed and settled? | `claims`; by limits: `limiter` |
//! | how are leases renewed, and due jobs queued? | `leases` |
//! | what do reads return? | `reader`; events since an earlier read: `changes` |
//! | which jobs wait for others? | `flow` |
//! | how are schedules and queues saved? | `schedules`, `queues` |
//! | which workers are known, and who owns a lock? | `workers`, `locks` |
//! | notifications and tokens | `notifications`, `tokens` |
//! | how is data removed, and how is it imported? | `retention`, `transfer` |

mod changes;
mod claims;
mod flow;
mod jobs;
mod leases;
mod limiter;
mod locks;
mod notifications;
mod queues;
mod reader;
mod retention;
mod schedules;
mod state;
mod store;
mod tokens;
mod transfer;
mod workers;

pub use self::{state::Ties, store::ModelStore};
