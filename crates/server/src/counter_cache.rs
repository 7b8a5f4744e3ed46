//! What jobs have done since the server started, read from the counters of the store. Counts of past hours are cached
//! here, so that the cost of a read does not grow with the uptime of the server.

use std::{collections::BTreeMap, time::Duration};

use punctual_client::Punctual;
use punctual_core::{
    StoreResult, Timestamp,
    measure::{Measure, hour},
};
use tokio::sync::Mutex;

/// Counters of an hour may still be updated until this long after its end.
const LATE: Duration = Duration::from_secs(3_600);

/// Key of a counter: queue, job name, measure, bucket.
pub(crate) type Key = (String, String, Measure, u16);
pub(crate) type Counts = BTreeMap<Key, u64>;

/// Reads the counters.
pub(crate) struct CounterCache {
    punctual: Punctual,
    state: Mutex<Option<CounterState>>,
}

struct CounterState {
    /// The counts at the start of the server.
    before: Counts,
    /// The counts from then until `closed_until`.
    closed: Counts,
    closed_until: Timestamp,
}

impl CounterCache {
    pub(crate) fn new(punctual: Punctual) -> Self {
        Self { punctual, state: Mutex::default() }
    }

    /// The counts since the first read.
    pub(crate) async fn counts(&self) -> StoreResult<Counts> {
        let mut state = self.state.lock().await;
        let now = self.punctual.store().now();
        let closing = hour(now).before(LATE);
        if let Some(state) = &mut *state {
            if state.closed_until < closing {
                let finished = self.between(state.closed_until, closing).await?;
                add(&mut state.closed, finished);
                state.closed_until = closing;
            }
            let mut counts = state.closed.clone();
            add(&mut counts, self.between(state.closed_until, now.after(LATE)).await?);
            for (key, count) in &state.before {
                counts.entry(key.clone()).and_modify(|known| *known = known.saturating_sub(*count));
            }
            return Ok(counts);
        }
        let before = self.between(closing, now.after(LATE)).await?;
        *state = Some(CounterState { before, closed: Counts::new(), closed_until: closing });
        Ok(Counts::new())
    }

    /// Whether the store had counted nothing in the last hour before the first read.
    pub(crate) async fn was_empty(&self) -> bool {
        self.state.lock().await.as_ref().is_some_and(|state| state.before.is_empty())
    }

    async fn between(&self, since: Timestamp, until: Timestamp) -> StoreResult<Counts> {
        let mut counts = Counts::new();
        for rollup in self.punctual.store().rollups(since, until).await? {
            *counts.entry((rollup.queue, rollup.name, rollup.measure, rollup.bucket)).or_default() += rollup.count;
        }
        Ok(counts)
    }
}

fn add(counts: &mut Counts, more: Counts) {
    for (key, count) in more {
        *counts.entry(key).or_default() += count;
    }
}
