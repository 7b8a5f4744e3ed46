//! Group commit: the requests of many concurrent tasks are executed by one statement.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use punctual_core::StoreError;
use tokio::sync::oneshot;

/// Executes a batch and returns one answer per item, in order.
pub(crate) type Work<T, R> =
    Arc<dyn Fn(Vec<T>) -> Pin<Box<dyn Future<Output = Result<Vec<R>, StoreError>> + Send>> + Send + Sync>;

/// Maximum number of concurrent batches. With one, the server would wait for the client between two batches; with more,
/// batches would be small.
const UNDER_WAY_MAX: usize = 2;
/// Maximum number of items in one batch.
const BATCH_MAX_ITEMS: usize = 2_000;

/// Collects requests while other batches are executed.
pub(crate) struct Batcher<T, R> {
    state: Arc<Mutex<State<T, R>>>,
    work: Work<T, R>,
}

struct State<T, R> {
    waiting: Vec<PendingCall<T, R>>,
    under_way: usize,
}

struct PendingCall<T, R> {
    items: Vec<T>,
    caller: oneshot::Sender<Result<Vec<R>, StoreError>>,
}

impl<T: Clone + Send + 'static, R: Send + 'static> Batcher<T, R> {
    pub(crate) fn new(work: Work<T, R>) -> Self {
        Self { state: Arc::new(Mutex::new(State { waiting: Vec::new(), under_way: 0 })), work }
    }

    /// Executes `items`, possibly in one batch with those of other callers; returns when they are done.
    pub(crate) async fn call(&self, items: Vec<T>) -> Result<Vec<R>, StoreError> {
        let (caller, answer) = oneshot::channel();
        let begin = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.waiting.push(PendingCall { items, caller });
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

/// Executes batches until no call is waiting.
async fn run<T: Clone + Send + 'static, R: Send + 'static>(state: Arc<Mutex<State<T, R>>>, work: Work<T, R>) {
    while let Some(batch) = next(&state) {
        do_batch(batch, &work).await;
    }
}

/// Takes the next batch. If no call is waiting, returns `None` and counts the calling task as finished.
fn next<T, R>(state: &Mutex<State<T, R>>) -> Option<Vec<PendingCall<T, R>>> {
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

async fn do_batch<T: Clone, R>(mut batch: Vec<PendingCall<T, R>>, work: &Work<T, R>) {
    if let [_] = batch.as_slice() {
        let call = batch.remove(0);
        // An error means that the caller no longer waits for the answer.
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
        // No item has caused this error, and a retry of each call would wait as long.
        Err(error @ StoreError::Unreachable { .. }) => {
            for call in batch {
                let _ = call.caller.send(Err(error.clone()));
            }
        }
        // One of the items may have caused the error; the other calls may succeed without it.
        Err(_) => {
            for call in batch {
                let _ = call.caller.send(work(call.items).await);
            }
        }
    }
}
