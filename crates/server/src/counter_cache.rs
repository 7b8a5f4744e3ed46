//! What jobs have done since the server began, read from the counters of the store: those of the hours that are over
//! are kept here, so that a look costs the same however long the server runs.

use std::{collections::BTreeMap, time::Duration};

use punctual_client::Punctual;
use punctual_core::{
    StoreResult, Timestamp,
    measure::{Measure, hour},
};
use tokio::sync::Mutex;

/// What is told late of an hour is counted, if it is not later than this.
const LATE: Duration = Duration::from_secs(3_600);

/// What was counted: the queue, the name, what, and its bucket.
pub(crate) type Key = (String, String, Measure, u16);
pub(crate) type Counts = BTreeMap<Key, u64>;

/// Reads the counters.
pub(crate) struct CounterCache {
    punctual: Punctual,
    state: Mutex<Option<State>>,
}

struct State {
    /// What there was when the server began.
    before: Counts,
    /// What was counted from then until `closed_until`.
    closed: Counts,
    closed_until: Timestamp,
}

impl CounterCache {
    pub(crate) fn new(punctual: Punctual) -> Self {
        Self { punctual, state: Mutex::default() }
    }

    /// Everything since the first look.
    pub(crate) async fn look(&self) -> StoreResult<Counts> {
        let mut state = self.state.lock().await;
        let now = self.punctual.store().now();
        let closing = hour(now).before(LATE);
        if let Some(state) = &mut *state {
            if state.closed_until < closing {
                let over = self.between(state.closed_until, closing).await?;
                add(&mut state.closed, over);
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
        *state = Some(State { before, closed: Counts::new(), closed_until: closing });
        Ok(Counts::new())
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
