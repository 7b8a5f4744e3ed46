//! Programs as handlers: whatever they do, the job's history is complete and the worker is unharmed.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bench;
mod ends;
mod limits;
mod output;
mod pool;
