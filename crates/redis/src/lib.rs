//! Redis in front of a primary store: it dispatches the jobs of that store, at a higher rate than the store itself.
//!
//! Redis stores hints about jobs. The [`PrimaryStore`](punctual_core::dispatch::PrimaryStore) owns the jobs and is
//! authoritative; `docs/adr/0014` explains why no job is lost and no two workers hold the same job if the two differ.
//!
//! | question | file |
//! |---|---|
//! | which keys does Redis contain? | `keys` |
//! | which operations of Redis are atomic? | `scripts/*.lua`, called by `scripts` |
//! | how are connections to Redis made? | `server` |
//! | how is the store's port implemented? | `store`, with `options`; its parts share `shared` |
//! | which side dispatches a queue's jobs now? | `dispatch_lease` |
//! | when does Redis begin to dispatch a queue's jobs, and when has it lost them? | `activation` |
//! | what does Redis receive about new jobs? | `push` |
//! | how does a worker claim a job? | `claim` |
//! | when is an execution recorded in the primary store? | `write_behind` |
//! | how are differences between Redis and the primary store repaired? | `reconciler` |
//! | how are idle workers woken? | `wake` |
//! | which workers are alive, and what becomes of the jobs of dead ones? | `heartbeats`, `dead_workers` |
//! | who owns a lock? | `locks` |
//! | what does `doctor` check, and which repairs are counted? | `diagnostics`, `repairs` |

mod activation;
mod claim;
mod dead_workers;
mod diagnostics;
mod dispatch_lease;
mod heartbeats;
mod keys;
mod locks;
mod options;
mod push;
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
