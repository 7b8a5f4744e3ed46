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
//! | who hands out a queue's jobs now? | `keeper` |
//! | when does Redis begin to hand out a queue's jobs, and when has it lost them? | `opening` |
//! | how does a job get to its worker? | `claim` |
//! | when does the owner know? | `record` |
//! | what is told again, and when? | `loader` |
//! | how are idle workers woken? | `wake` |
//! | who is alive? | `hearts` |
//! | who has a lock? | `locks` |
//! | is all well, and what had to be put right? | `examine`, `repairs` |

mod claim;
mod examine;
mod hearts;
mod keeper;
mod keys;
mod loader;
mod locks;
mod opening;
mod options;
mod record;
mod repairs;
mod scripts;
mod server;
mod shared;
mod store;
mod wake;

pub use options::Options;
pub use server::Address;
pub use store::DispatchStore;
