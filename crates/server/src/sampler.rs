//! Samples the counters for charts, and notifies open pages of changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use punctual_core::Status;
use tokio::time;

use crate::{app::App, counter_cache::Counts};

/// How often the watcher checks for changes to report to open pages.
const TICK: Duration = Duration::from_secs(1);
/// Open pages are also notified after this many ticks without a changed count, since running jobs may have made
/// progress.
const TICKS_MAX: u32 = 5;
/// The counters are sampled every this many ticks.
const SAMPLE_TICKS: u32 = 10;

/// Samples the counters until the server stops.
pub(crate) async fn run(app: Arc<App>) {
    let (mut seen, mut quiet, mut ticks) = (Vec::new(), 0, 0);
    let mut timer = time::interval(TICK);
    timer.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = timer.tick() => {}
            () = app.stopping.cancelled() => return,
        }
        let (due, watched) = (ticks % SAMPLE_TICKS == 0, app.history.is_watched());
        ticks += 1;
        if !due && !watched {
            continue;
        }
        // While the store is unavailable, samples are missing and charts show a gap.
        let Ok(counts) = app.punctual.store().counts().await else { continue };
        if due && let Ok(rollups) = app.counter_cache.counts().await {
            let mut ready = BTreeMap::from([(None, 0)]);
            for count in counts.iter().filter(|count| count.status == Status::Queued) {
                *ready.entry(None).or_default() += count.count;
                *ready.entry(Some(count.queue.clone())).or_default() += count.count;
            }
            app.history.record(app.punctual.store().now(), without_names(rollups), &ready);
        }
        quiet += 1;
        if counts != seen || quiet >= TICKS_MAX {
            (seen, quiet) = (counts, 0);
            app.history.notify();
        }
    }
}

fn without_names(counts: Counts) -> Counts {
    let mut together = Counts::new();
    for ((queue, _, measure, bucket), count) in counts {
        *together.entry((queue, String::new(), measure, bucket)).or_default() += count;
    }
    together
}
