//! What a worker counts, and which of it are metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_core::store::Metric;
use serde::{Deserialize, Serialize};

/// Declares the counters of a worker: the description of each, its name, and the name of its metric, if it has one.
/// The only list of them.
macro_rules! counters {
    ($(#[doc = $about:literal] $counter:ident $(=> $metric:literal)?;)*) => {
        /// The counters of a worker.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $counter: AtomicU64,)*
        }

        impl Counters {
            /// The statistics of a worker that has `running` unsettled executions.
            pub(crate) fn stats(&self, running: u64) -> Stats {
                Stats { $($counter: self.$counter.load(Ordering::Relaxed),)* running }
            }
        }

        /// Statistics of a worker since its start.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        pub struct Stats {
            $(
                #[doc = $about]
                pub $counter: u64,
            )*
            /// Executions that are not settled yet.
            pub running: u64,
        }

        impl Stats {
            /// The sum of two statistics.
            #[must_use]
            pub const fn plus(self, other: Self) -> Self {
                Self { $($counter: self.$counter + other.$counter,)* running: self.running + other.running }
            }

            /// Those that a server beside the worker reports as metrics.
            pub fn metrics(self) -> Vec<Metric> {
                vec![$($(Metric::new($metric, $about.trim_start(), self.$counter as f64),)?)*]
            }
        }
    };
}

// Outcomes have no metrics here: the store counts them, for all workers together.
counters! {
    /// Jobs that were claimed.
    claimed => "punctual_worker_claimed_total";
    /// Executions that succeeded.
    succeeded;
    /// Executions that failed and will be retried.
    failed;
    /// Executions that failed for the last time.
    died;
    /// Executions that were released or snoozed.
    released;
    /// Settlements that were rejected because they came too late.
    stale => "punctual_worker_stale_settles_total";
    /// Executions whose lease was lost or whose job was cancelled while their handler ran.
    lost_leases => "punctual_worker_lost_leases_total";
    /// Jobs of lost workers that were requeued.
    reaped => "punctual_worker_reaped_total";
    /// Occurrences of schedules that were enqueued.
    occurrences => "punctual_schedule_occurrences_total";
    /// Misfires of schedules that were found.
    misfires => "punctual_schedule_misfires_total";
}
