//! Redis in front of a primary store: hands out the jobs that the primary store owns, faster than that store can.
//!
//! Redis stores hints about jobs. The [`PrimaryStore`](punctual_core::dispatch::PrimaryStore) owns the jobs and decides
//! what is true; `docs/adr/0014` explains why the two never contradict each other for long, and never cause harm.
//!
//! | question | file |
//! |---|---|
//! | which keys are there in Redis? | `keys` |
//! | what happens there atomically? | `scripts/*.lua`, called by `scripts` |
//! | how is Redis connected? | `server` |
//! | which store is it? | `store`, opened by `options`; its parts share `shared` |
//! | which side hands out a queue's jobs now? | `dispatch_lease` |
//! | when does Redis begin to hand out a queue's jobs, and when has it lost them? | `activation` |
//! | how does a worker claim a job? | `claim` |
//! | when does the primary store know of an execution? | `write_behind` |
//! | which jobs are dispatched again, and when? | `reconciler` |
//! | how are idle workers woken? | `wake` |
//! | which workers are alive? | `heartbeats` |
//! | who owns a lock? | `locks` |
//! | is everything in order, and what was repaired? | `diagnostics`, `repairs` |

mod activation;
mod claim;
mod diagnostics;
mod dispatch_lease;
mod heartbeats;
mod keys;
mod locks;
mod options;
mod reconciler;
mod repairs;
mod scripts;
mod server;
mod shared;
mod store;
mod wake;
mod write_behind;

pub use options::Options;
pub use server::Address;
pub use store::DispatchStore;
