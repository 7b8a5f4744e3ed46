//! Group commit: what many tasks ask for at once is done by one statement.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use punctual_core::StoreError;
use tokio::sync::oneshot;

/// Does a batch and answers for each item, in order.
pub(crate) type Work<T, R> =
    Arc<dyn Fn(Vec<T>) -> Pin<Box<dyn Future<Output = Result<Vec<R>, StoreError>> + Send>> + Send + Sync>;

/// Batches under way at once. With one, the server would wait for the client between two; more would make small
/// batches.
const UNDER_WAY_MAX: usize = 2;
/// Items in one batch.
const BATCH_MAX_ITEMS: usize = 2_000;

/// Gathers what is asked for while others are under way.
pub(crate) struct Batcher<T, R> {
    state: Arc<Mutex<State<T, R>>>,
    work: Work<T, R>,
}

struct State<T, R> {
    waiting: Vec<Call<T, R>>,
    under_way: usize,
}

struct Call<T, R> {
    items: Vec<T>,
    caller: oneshot::Sender<Result<Vec<R>, StoreError>>,
}

impl<T: Clone + Send + 'static, R: Send + 'static> Batcher<T, R> {
    pub(crate) fn new(work: Work<T, R>) -> Self {
        Self { state: Arc::new(Mutex::new(State { waiting: Vec::new(), under_way: 0 })), work }
    }

    /// Has `items` done, together with those of others if need be; answers once they are.
    pub(crate) async fn call(&self, items: Vec<T>) -> Result<Vec<R>, StoreError> {
        let (caller, answer) = oneshot::channel();
        let begin = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.waiting.push(Call { items, caller });
            let begin = state.under_way < UNDER_WAY_MAX;
            state.under_way += usize::from(begin);
            begin
        };
        if begin {
            tokio::spawn(run(Arc::clone(&self.state), Arc::clone(&self.work)));
        }
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// Does batches until nobody waits.
async fn run<T: Clone + Send + 'static, R: Send + 'static>(state: Arc<Mutex<State<T, R>>>, work: Work<T, R>) {
    while let Some(batch) = next(&state) {
        do_batch(batch, &work).await;
    }
}

/// The next batch; without one, its taker is done.
fn next<T, R>(state: &Mutex<State<T, R>>) -> Option<Vec<Call<T, R>>> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if state.waiting.is_empty() {
        state.under_way -= 1;
        return None;
    }
    let mut items = 0;
    let fits = state.waiting.iter().take_while(|call| {
        items += call.items.len();
        items <= BATCH_MAX_ITEMS
    });
    let count = fits.count().max(1);
    Some(state.waiting.drain(..count).collect())
}

async fn do_batch<T: Clone, R>(mut batch: Vec<Call<T, R>>, work: &Work<T, R>) {
    if let [_] = batch.as_slice() {
        let call = batch.remove(0);
        // A caller that no longer waits does not mind.
        let _ = call.caller.send(work(call.items).await);
        return;
    }
    let all = batch.iter().flat_map(|call| call.items.iter().cloned()).collect();
    match work(all).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for call in batch {
                let own = answers.by_ref().take(call.items.len()).collect();
                let _ = call.caller.send(Ok(own));
            }
        }
        // None of them is at fault, and each by itself would wait as long.
        Err(error @ StoreError::Unreachable { .. }) => {
            for call in batch {
                let _ = call.caller.send(Err(error.clone()));
            }
        }
        // One of them may be at fault; the others may succeed without it.
        Err(_) => {
            for call in batch {
                let _ = call.caller.send(work(call.items).await);
            }
        }
    }
}
