//! What the tests share: their stores, the processes that they start, and the conditions that they wait for.
//!
//! | file | content |
//! |---|---|
//! | `test_store` | a store of its own for each test, on each engine |
//! | `process` | starts, suspends and kills processes |
//! | `proc_fs` | the processes of the machine |
//! | `roles/` | what these processes do |
//! | `ledger` | the file in which they record what they have done |
//! | `observe` | counts of jobs, and conditions to wait for |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ledger;
mod observe;
mod proc_fs;
mod process;
pub mod roles;
mod test_store;

pub use ledger::Ledger;
pub use observe::{count, ids, leases_compared, load_duration, until};
pub use proc_fs::{processes_called, processes_with};
pub use process::{Helper, Process};
pub use roles::Role;
pub use test_store::{Holder, TestStore};

/// Runs each test on each engine; a test receives the function that creates a store.
#[macro_export]
macro_rules! on_each_engine {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test($crate::TestStore::new).await;
            })*
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test($crate::TestStore::postgres).await;
            })*
        }

        mod redis {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test($crate::TestStore::redis).await;
            })*
        }
    };
}
