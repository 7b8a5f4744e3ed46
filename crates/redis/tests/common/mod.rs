//! Fixtures that the tests share.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::{
    panic,
    sync::{Arc, Mutex},
    time::Duration,
};

use punctual_core::{ManualClock, Store, StoreResult};
use punctual_redis::{Address, DispatchStore, Options};
use punctual_sql::postgres::{self, PostgresStore};
use punctual_testkit::{Fixture, Ties};
use tokio::time::{self, Instant};

/// The address of a server that was started for the tests.
pub fn url(name: &str) -> String {
    std::env::var(name).expect("the tests need servers of their own; `cargo xtask test` starts them and names them")
}

/// The Redis that was started for the tests.
pub fn redis() -> Address {
    url("PUNCTUAL_TEST_REDIS_URL").parse().unwrap()
}

/// The name of a schema that no other test uses.
pub fn schema() -> String {
    format!("test_{:016x}", fastrand::u64(..))
}

/// Opens a store with these options, if they are valid.
pub async fn try_open(options: Options) -> StoreResult<DispatchStore> {
    DispatchStore::open(Arc::new(primary(&schema(), None).await), options).await
}

/// Opens the store of a schema, as one process does; with the server's clock if none is given.
pub async fn open(schema: &str, clock: Option<&ManualClock>, options: impl Into<Options>) -> DispatchStore {
    DispatchStore::open(Arc::new(primary(schema, clock).await), options).await.unwrap()
}

async fn primary(schema: &str, clock: Option<&ManualClock>) -> PostgresStore {
    primary_at(&url("PUNCTUAL_TEST_POSTGRES_URL"), schema, clock).await
}

/// PostgreSQL at an address, opened for dispatching.
pub async fn primary_at(url: &str, schema: &str, clock: Option<&ManualClock>) -> PostgresStore {
    let mut primary: postgres::Options = url.parse().unwrap();
    (primary.schema, primary.days_ahead, primary.dispatched) = (schema.to_owned(), 0, true);
    if let Some(clock) = clock {
        primary = primary.clock(clock.clone());
    }
    PostgresStore::open(primary).await.unwrap()
}

/// A fixture with a store of its own.
pub async fn fixture(options: impl Into<Options>) -> Fixture {
    let clock = Fixture::start();
    Fixture::new(open(&schema(), Some(&clock), options).await, clock).ties(Ties::Id)
}

/// Found: two ends of one execution in one batch, before its start was recorded: the later one was applied.
const TWO_ENDS: u64 = 13_672_616_674_303_588_797;

/// Found: a scheduled job in a queue whose limit ends, while a worker of another queue polls first: it started late.
const LIMIT_ENDS: u64 = 15_526_164_152_184;

/// Found: a scheduled job starts, and another one is next: for up to 250 ms a claim still reported the first one's
/// time.
const NEXT_HAS_GONE: u64 = 448_642_631_248;

/// The seeds that have found bugs, and a new one.
pub fn seeds() -> Vec<u64> {
    [TWO_ENDS, LIMIT_ENDS, NEXT_HAS_GONE, new_seed()].into()
}

/// A seed that is new in every run, so that the suite keeps exploring; its number is printed when it fails.
/// `PUNCTUAL_TEST_SEED` sets it.
pub fn new_seed() -> u64 {
    let given = std::env::var("PUNCTUAL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..))
}

/// Longer pauses of the machine exceed timeouts of the dispatch: an answer of Redis counts as lost after two seconds,
/// and jobs that were handed out meanwhile are put back later than the model expects.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Only a machine that pauses all the time voids this many runs.
const RUNS_MAX: usize = 5;

/// Runs `replay` on a store of its own. If it fails and the machine paused meanwhile, it runs again: behaviour during
/// pauses is covered by other tests.
pub async fn without_pauses<F: Future<Output = ()> + Send + 'static>(
    fixture: impl AsyncFn() -> Fixture,
    replay: impl Fn(Fixture) -> F,
) {
    for _ in 0..RUNS_MAX {
        let fixture = fixture().await;
        let answers = Arc::new(Mutex::new(Answers { last: Instant::now(), longest_pause: Duration::ZERO }));
        let watch = tokio::spawn(watch(Arc::clone(&fixture.store), Arc::clone(&answers)));
        let result = tokio::spawn(replay(fixture)).await;
        watch.abort();
        answers.lock().unwrap().note();
        let pause = answers.lock().unwrap().longest_pause;
        match result {
            Ok(()) => return,
            Err(failed) if pause < PAUSE_MAX => panic::resume_unwind(failed.into_panic()),
            Err(_) => println!("nothing went on for {pause:?}, so that this run shows nothing; again"),
        }
    }
    panic!("{RUNS_MAX} runs failed, and in each of them nothing went on for more than {PAUSE_MAX:?}");
}

/// When the servers last answered, and the longest interval between answers.
struct Answers {
    last: Instant,
    longest_pause: Duration,
}

impl Answers {
    fn note(&mut self) {
        self.longest_pause = self.longest_pause.max(self.last.elapsed());
        self.last = Instant::now();
    }
}

/// Queries both servers periodically.
async fn watch(store: Arc<dyn Store>, answers: Arc<Mutex<Answers>>) {
    loop {
        let (metrics, read) = (store.metrics().await.unwrap_or_default(), store.schedules(None, 1).await);
        if read.is_ok() && metrics.iter().any(|metric| metric.name == "punctual_dispatch_up" && metric.value > 0.0) {
            answers.lock().unwrap().note();
        }
        time::sleep(Duration::from_millis(50)).await;
    }
}
