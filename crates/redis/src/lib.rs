//! Redis hands out the jobs that another store owns, faster than that store could.
//!
//! What it knows of a job is a hint. The owner, a [`PrimaryStore`](punctual_core::dispatch::PrimaryStore), says what is
//! true; `docs/adr/0014` says why the two never contradict each other for long, and never to anybody's harm.
//!
//! | question | file |
//! |---|---|
//! | what is where in Redis? | `keys` |
//! | what happens there in one step? | `scripts/*.lua`, by `scripts` |
//! | how is it reached? | `server` |
//! | which store is it? | `store`, opened by `options`; its parts share `shared` |
//! | who hands out a queue's jobs now? | `dispatch_lease` |
//! | when does Redis begin to hand out a queue's jobs, and when has it lost them? | `activation` |
//! | how does a job get to its worker? | `claim` |
//! | when does the owner know? | `write_behind` |
//! | what is told again, and when? | `reconciler` |
//! | how are idle workers woken? | `wake` |
//! | who is alive? | `heartbeats` |
//! | who has a lock? | `locks` |
//! | is all well, and what had to be put right? | `examine`, `repairs` |

mod activation;
mod claim;
mod dispatch_lease;
mod examine;
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
