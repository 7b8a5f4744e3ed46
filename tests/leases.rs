//! A worker that is cut off from its store stops by itself; no job has two executions in one worker; the slot of a
//! limit is held until the handler is gone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use punctual::{
    AttemptStatus, Context, Draft, Failure, HandlerResult, Program, Punctual, RetryPolicy, RunningWorker, Status,
    Worker, WorkerBuilder,
    core::{ClaimRequest, JobId, Limits, Outcome, Settled, WorkerId, settle},
};
use punctual_servers::{Direction, Fault, Proxy};
use punctual_testkit::{FaultyStore, When, conformance::audit_store};
use punctual_tests::{TestStore, on_each_engine, until};

on_each_engine! {
    a_cancel_frees_the_slot_of_a_key_only_when_the_handler_is_gone
    a_cancel_frees_the_slot_of_a_queue_only_when_the_handler_is_gone
    a_handler_that_ignores_its_cancel_is_dropped_after_its_grace_and_its_slot_is_free
}

const LONG: Duration = Duration::from_secs(120);

/// A store, and the same store behind an unreliable network.
struct Bench {
    test_store: TestStore,
    punctual: Punctual,
    network: FaultyStore,
}

impl Bench {
    async fn new() -> Self {
        Self::on(TestStore::new()).await
    }

    async fn on(test_store: TestStore) -> Self {
        let punctual = test_store.connect().await;
        let network = FaultyStore::new(punctual.store().clone());
        Self { test_store, punctual, network }
    }

    /// A worker behind the network.
    fn behind(&self) -> WorkerBuilder {
        Worker::builder(Punctual::new(Arc::new(self.network.clone()))).poll_period(Duration::from_millis(20))
    }

    /// From now on the network drops everything.
    fn cut(&self) {
        for method in [
            "extend",
            "check_leases",
            "heartbeat",
            "claim",
            "settle",
            "release_slots",
            "report_progress",
            "expired",
            "maintain",
            "lock",
            "deregister",
        ] {
            self.network.fail_always(method, When::Never);
        }
    }

    /// Runs the remaining jobs with a worker that is not cut off.
    async fn other_worker(&self) -> RunningWorker {
        Worker::builder(self.punctual.clone()).handler("x", |_: Context| async { Ok(None) }).start().await.unwrap()
    }
}

/// Counts concurrent executions.
#[derive(Clone, Default)]
struct Counter(Arc<Counts>);

#[derive(Default)]
struct Counts {
    all: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A counted execution.
struct Counted(Arc<Counts>);

impl Counter {
    fn restart(&self) {
        self.0.all.store(0, Ordering::SeqCst);
    }

    fn begin(&self) -> Counted {
        self.0.all.fetch_add(1, Ordering::SeqCst);
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        Counted(self.0.clone())
    }

    fn all(&self) -> usize {
        self.0.all.load(Ordering::SeqCst)
    }

    fn now(&self) -> usize {
        self.0.now.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Works until its stop signal, and then takes some time to clean up.
async fn stops_slowly(ctx: Context) -> HandlerResult {
    ctx.signal().cancelled().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(None)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_cut_off_stops_at_the_end_of_its_lease() {
    let bench = Bench::new().await;
    let (begun, stopped) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (begins, stops) = (begun.clone(), stopped.clone());
    let handler = move |ctx: Context| {
        let (begun, stopped) = (begins.clone(), stops.clone());
        async move {
            begun.notify_one();
            ctx.signal().cancelled().await;
            assert!(ctx.is_lease_over());
            stopped.notify_one();
            Ok(None)
        }
    };
    let cut_off = bench.behind().handler("x", handler).lease(Duration::from_secs(2)).start().await.unwrap();
    let id = bench.punctual.enqueue(Draft::new("x", &()).max_attempts(3)).await.unwrap().id;
    begun.notified().await;
    bench.cut();
    let other = bench.other_worker().await;
    tokio::time::timeout(LONG, stopped.notified()).await.expect("the stop signal of the handler");
    let done = bench.punctual.wait(id, LONG).await.unwrap();
    assert_eq!((done.status, done.run, cut_off.stats().lost_leases), (Status::Succeeded, 2, 1));
    other.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

/// The process is suspended between the claim of two jobs and the start of the second one: another worker may hold it
/// by then.
#[tokio::test(flavor = "current_thread")]
async fn a_job_whose_lease_ended_before_its_start_does_not_start() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let starts: Arc<Mutex<Vec<u32>>> = Arc::default();
    let (runs, lease) = (starts.clone(), Duration::from_secs(1));
    let handler = move |ctx: Context| {
        let run = ctx.claim().job.run;
        let mut runs = runs.lock().unwrap();
        runs.push(run);
        if runs.len() == 1 {
            // Blocks the only thread of the runtime.
            std::thread::sleep(2 * lease);
        }
        async { Ok(None) }
    };
    let jobs = punctual.enqueue_all([Draft::new("x", &()), Draft::new("x", &())]).await.unwrap();
    let worker = Worker::builder(punctual.clone()).handler("x", handler).concurrency(4).lease(lease);
    let worker = worker.start().await.unwrap();
    for job in jobs {
        assert_eq!(punctual.wait(job.id, LONG).await.unwrap().status, Status::Succeeded);
    }
    let first_runs = starts.lock().unwrap().iter().filter(|run| **run == 1).count();
    assert_eq!(first_runs, 1);
    worker.stop().await;
    audit_store(&**punctual.store()).await;
}

/// Redis ends the leases of a worker without heartbeats, however long they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_cut_off_stops_when_the_store_takes_it_for_dead() {
    let bench = Bench::on(TestStore::redis()).await;
    let (begun, stopped) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let (begins, stops) = (begun.clone(), stopped.clone());
    let handler = move |ctx: Context| {
        let (begun, stopped) = (begins.clone(), stops.clone());
        async move {
            begun.notify_one();
            ctx.signal().cancelled().await;
            stopped.notify_one();
            Ok(None)
        }
    };
    let _cut_off = bench.behind().handler("x", handler).lease(Duration::from_secs(3_600)).start().await.unwrap();
    bench.punctual.enqueue(Draft::new("x", &())).await.unwrap();
    begun.notified().await;
    bench.cut();
    tokio::time::timeout(LONG, stopped.notified()).await.expect("the stop signal of the handler");
}

/// A job that Redis dispatches starts before PostgreSQL records it. If PostgreSQL never receives the record, another
/// worker may start it again.
#[tokio::test(flavor = "multi_thread")]
async fn an_execution_whose_start_cannot_be_recorded_stops_before_another_one_starts() {
    let test_store = TestStore::redis();
    let proxy = Arc::new(Proxy::before(&test_store.url).unwrap());
    let cut_off = Punctual::connect(&proxy.url_of(&test_store.url).unwrap()).await.unwrap();
    let punctual = test_store.connect().await;
    let (counter, cuts) = (Counter::default(), Arc::new(AtomicBool::new(false)));
    let (counts, network, cut) = (counter.clone(), proxy.clone(), cuts.clone());
    let handler = move |ctx: Context| {
        let (counted, cut) = (counts.begin(), cut.load(Ordering::SeqCst));
        if cut {
            network.set(Fault::Swallow(Direction::Both));
        }
        async move {
            let _counted = counted;
            if cut {
                ctx.signal().cancelled().await;
            }
            Ok(None)
        }
    };
    let hour = Duration::from_secs(3_600);
    let _cut_off = Worker::builder(cut_off).handler("x", handler).lease(hour).start().await.unwrap();
    let first = punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
    assert_eq!(punctual.wait(first, LONG).await.unwrap().status, Status::Succeeded);
    // From now on, new jobs start as soon as they are stored.
    cuts.store(true, Ordering::SeqCst);
    let mut begun = 1;
    let id = loop {
        let id = punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
        begun += 1;
        until("the job to run", async || counter.all() == begun).await;
        if punctual.store().history(id).await.unwrap().attempts.is_empty() {
            break id;
        }
        // On a slow machine, PostgreSQL receives the record before the network is cut.
        proxy.heal();
        punctual.admin("test").cancel(id, None).await.unwrap();
        until("the handler to end", async || counter.now() == 0).await;
    };
    let counts = counter.clone();
    let handler = move |_: Context| {
        let _counted = counts.begin();
        async { Ok(None) }
    };
    let other = Worker::builder(punctual.clone()).handler("x", handler).start().await.unwrap();
    assert_eq!(punctual.wait(id, LONG).await.unwrap().status, Status::Succeeded);
    assert_eq!((counter.all(), counter.most()), (begun + 1, 1));
    other.stop().await;
    audit_store(&**punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_of_a_worker_that_is_cut_off_is_killed_with_all_that_it_started() {
    let bench = Bench::new().await;
    let mark = bench.test_store.folder.path().display().to_string();
    let line = "trap '' TERM; sleep 600 & echo here >&2; sleep 600";
    let mut program = Program::new(["sh", "-c", line]);
    program.env.insert("MARK".into(), mark.clone());
    let handler = program.handler().unwrap();
    let _cut_off = bench.behind().handler("x", handler).lease(Duration::from_secs(2)).start().await.unwrap();
    let id = bench.punctual.enqueue(Draft::new("x", &()).max_attempts(3)).await.unwrap().id;
    until("the program to run", async || bench.punctual.admin("test").job(id).await.unwrap().logs.len() == 1).await;
    bench.cut();
    until("all of it to be gone", async || processes_with(&format!("MARK={mark}")) == 0).await;
    let other = bench.other_worker().await;
    assert_eq!(bench.punctual.wait(id, LONG).await.unwrap().status, Status::Succeeded);
    other.stop().await;
}

fn processes_with(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let environments = entries.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments.filter(|all| all.split(|byte| *byte == 0).any(|one| one == mark.as_bytes())).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_by_the_handler_counts_for_the_lease_clock() {
    let bench = Bench::new().await;
    let network = bench.network.clone();
    let handler = move |ctx: Context| {
        let network = network.clone();
        async move {
            ctx.extend(Duration::from_secs(600)).await?;
            network.fail_always("extend", When::Never);
            let stopped = tokio::time::timeout(Duration::from_secs(2), ctx.signal().cancelled_owned()).await;
            if stopped.is_ok() { Err(Failure::new("stop signal received")) } else { Ok(None) }
        }
    };
    let worker = bench.behind().handler("x", handler).lease(Duration::from_millis(500)).start().await.unwrap();
    let id = bench.punctual.enqueue(Draft::new("x", &()).max_attempts(1)).await.unwrap().id;
    assert_eq!(bench.punctual.wait(id, LONG).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_handed_out_twice_ends_the_older_execution_first() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    let counts = counter.clone();
    let handler = move |ctx: Context| {
        let counted = counts.begin();
        let first = counts.all() == 1;
        async move {
            let _counted = counted;
            if first { stops_slowly(ctx).await } else { Ok(None) }
        }
    };
    let worker = bench.behind().handler("x", handler).start().await.unwrap();
    let id = bench.punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
    until("the job to run", async || counter.all() == 1).await;
    bench.network.repeat_claim();
    let done = bench.punctual.wait(id, LONG).await.unwrap();
    assert_eq!((done.status, done.run, counter.all(), counter.most()), (Status::Succeeded, 1, 2, 1));
    // A job that runs at most once does not start a second time.
    counter.restart();
    let id = bench.punctual.enqueue(Draft::new("x", &()).max_attempts(1)).await.unwrap().id;
    until("the job to run", async || counter.all() == 1).await;
    bench.network.repeat_claim();
    let done = bench.punctual.wait(id, LONG).await.unwrap();
    assert_eq!((done.status, counter.all()), (Status::Dead, 1));
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_handed_out_again_after_its_execution_has_ended_is_not_run_again() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    let (counts, network) = (counter.clone(), bench.network.clone());
    let handler = move |_: Context| {
        let counted = counts.begin();
        // The outcome is stored only after the job has been claimed again.
        (0..6).for_each(|_| network.fail_next("settle", When::Before));
        network.repeat_claim();
        async move {
            let _counted = counted;
            Ok(None)
        }
    };
    let worker = bench.behind().handler("x", handler).start().await.unwrap();
    let id = bench.punctual.enqueue(Draft::new("x", &()).max_attempts(1)).await.unwrap().id;
    until("the claim to come again", async || bench.network.faults_left() == 0).await;
    assert_eq!(bench.punctual.wait(id, LONG).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
    assert_eq!(counter.all(), 1);
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_runs_at_most_once_is_not_run_again_when_the_store_has_lost_its_claim_and_its_end() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    let counts = counter.clone();
    let handler = move |_: Context| {
        let _counted = counts.begin();
        async { Ok(None) }
    };
    let worker = bench.behind().handler("x", handler).start().await.unwrap();
    let id = bench.punctual.enqueue(Draft::new("x", &()).max_attempts(1)).await.unwrap().id;
    assert_eq!(bench.punctual.wait(id, LONG).await.unwrap().status, Status::Succeeded);
    until("the worker to detect the end", async || worker.stats().running == 0).await;
    bench.network.repeat_claim();
    until("the claim to come again and to be ended", async || worker.stats().stale == 1).await;
    worker.stop().await;
    assert_eq!(counter.all(), 1);
    audit_store(&**bench.punctual.store()).await;
}

/// Two jobs of one concurrency key, of which one may run at once.
fn keyed() -> impl Iterator<Item = Draft> {
    let draft = |number: u32| Draft::new("x", &number).concurrency_key("k").retry(RetryPolicy::fixed(Duration::ZERO));
    (0..2).map(draft)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_frees_the_slot_of_a_limit_only_when_the_handler_is_gone() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    let counts = counter.clone();
    let handler = move |ctx: Context| {
        let counted = counts.begin();
        async move {
            let _counted = counted;
            stops_slowly(ctx).await
        }
    };
    let worker = bench.behind().handler("x", handler).start().await.unwrap();
    let drafts = keyed().map(|draft| draft.timeout(Duration::from_millis(100)).max_attempts(1));
    let jobs = bench.punctual.enqueue_all(drafts).await.unwrap();
    for job in jobs {
        assert_eq!(bench.punctual.wait(job.id, LONG).await.unwrap().status, Status::Dead);
        let attempts = bench.punctual.store().history(job.id).await.unwrap().attempts;
        assert_eq!(attempts[0].status, AttemptStatus::TimedOut);
    }
    assert_eq!((counter.all(), counter.most()), (2, 1));
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_frees_the_slot_of_a_limit_only_when_the_handler_is_gone() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    let (counts, others) = (counter.clone(), counter.clone());
    let handler = move |ctx: Context| {
        let counted = counts.begin();
        async move {
            let _counted = counted;
            stops_slowly(ctx).await
        }
    };
    let stopping = bench.behind().handler("x", handler).drain_timeout(Duration::ZERO).start().await.unwrap();
    let jobs = bench.punctual.enqueue_all(keyed()).await.unwrap();
    until("one to run", async || counter.all() == 1).await;
    let quick = move |_: Context| {
        let _counted = others.begin();
        async { Ok(None) }
    };
    let other = Worker::builder(bench.punctual.clone()).handler("x", quick).start().await.unwrap();
    stopping.stop().await;
    for job in jobs {
        assert_eq!(bench.punctual.wait(job.id, LONG).await.unwrap().status, Status::Succeeded);
    }
    assert_eq!((counter.all(), counter.most()), (3, 1));
    other.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

/// What the first execution does after its stop signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterStop {
    StopsSlowly,
    Continues,
}

/// A handler whose first execution waits for its stop signal; all others succeed at once.
fn first_waits(
    counter: &Counter,
    after_stop: AfterStop,
) -> impl Fn(Context) -> BoxFuture<'static, HandlerResult> + use<> {
    let counts = counter.clone();
    move |ctx: Context| {
        let (counted, is_first) = (counts.begin(), counts.all() == 1);
        Box::pin(async move {
            let _counted = counted;
            match after_stop {
                AfterStop::Continues if is_first => future::pending().await,
                AfterStop::StopsSlowly if is_first => stops_slowly(ctx).await,
                _ => Ok(None),
            }
        })
    }
}

impl Bench {
    /// Enqueues jobs of which one may run at once, and cancels the first one while it runs; returns the second.
    async fn cancel_first(&self, counter: &Counter, drafts: impl Iterator<Item = Draft>) -> JobId {
        let jobs = self.punctual.enqueue_all(drafts).await.unwrap();
        until("the first to run", async || counter.all() == 1).await;
        self.punctual.admin("test").cancel(jobs[0].id, None).await.unwrap();
        assert_eq!(self.punctual.job(jobs[0].id).await.unwrap().status, Status::Cancelled);
        jobs[1].id
    }

    async fn succeeds_alone(&self, counter: &Counter, job: JobId) {
        assert_eq!(self.punctual.wait(job, LONG).await.unwrap().status, Status::Succeeded);
        assert_eq!((counter.all(), counter.most()), (2, 1));
    }
}

async fn a_cancel_frees_the_slot_of_a_key_only_when_the_handler_is_gone(new_store: fn() -> TestStore) {
    let (bench, counter) = (Bench::on(new_store()).await, Counter::default());
    let worker = bench.behind().handler("x", first_waits(&counter, AfterStop::StopsSlowly)).start().await.unwrap();
    let second = bench.cancel_first(&counter, keyed()).await;
    bench.succeeds_alone(&counter, second).await;
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

async fn a_cancel_frees_the_slot_of_a_queue_only_when_the_handler_is_gone(new_store: fn() -> TestStore) {
    let (bench, counter) = (Bench::on(new_store()).await, Counter::default());
    let limits = Limits { concurrency: Some(1), ..Limits::default() };
    bench.punctual.admin("test").set_queue_limits("narrow", limits).await.unwrap();
    let other = bench.behind().handler("x", first_waits(&counter, AfterStop::StopsSlowly)).start().await.unwrap();
    let worker = bench.behind().handler("x", first_waits(&counter, AfterStop::StopsSlowly)).start().await.unwrap();
    let drafts = (0..2).map(|number| Draft::new("x", &number).queue("narrow"));
    let second = bench.cancel_first(&counter, drafts).await;
    bench.succeeds_alone(&counter, second).await;
    worker.stop().await;
    other.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

async fn a_handler_that_ignores_its_cancel_is_dropped_after_its_grace_and_its_slot_is_free(
    new_store: fn() -> TestStore,
) {
    let (bench, counter) = (Bench::on(new_store()).await, Counter::default());
    let worker =
        bench.behind().handler("x", first_waits(&counter, AfterStop::Continues)).grace(Duration::from_millis(100));
    // The test must not wait for this lease to expire.
    let worker = worker.lease(Duration::from_secs(3_600)).start().await.unwrap();
    let second = bench.cancel_first(&counter, keyed()).await;
    bench.succeeds_alone(&counter, second).await;
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_whose_release_is_not_stored_is_free_when_the_lease_ends() {
    let (bench, counter) = (Bench::new().await, Counter::default());
    bench.network.fail_always("release_slots", When::Before);
    let worker =
        bench.behind().handler("x", first_waits(&counter, AfterStop::StopsSlowly)).lease(Duration::from_secs(2));
    let worker = worker.start().await.unwrap();
    let second = bench.cancel_first(&counter, keyed()).await;
    bench.succeeds_alone(&counter, second).await;
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_grace_of_a_cancelled_job_ends_with_its_lease() {
    let (bench, counter) = (Bench::new().await, Counter::default());
    let worker = bench.behind().handler("x", first_waits(&counter, AfterStop::Continues)).grace(2 * LONG);
    let worker = worker.lease(Duration::from_secs(1)).start().await.unwrap();
    let second = bench.cancel_first(&counter, keyed()).await;
    until("the first to be dropped", async || counter.now() == 0).await;
    assert_eq!(bench.punctual.wait(second, LONG).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_not_empty_while_a_job_waits_for_the_handler_of_a_cancelled_one() {
    let (bench, counter) = (Bench::new().await, Counter::default());
    let worker = bench.behind().handler("x", first_waits(&counter, AfterStop::StopsSlowly)).start().await.unwrap();
    let second = bench.cancel_first(&counter, keyed()).await;
    worker.until_empty().await;
    assert_eq!(bench.punctual.job(second).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_outlives_its_grace_is_reported_in_the_log_of_its_attempt() {
    let bench = Bench::new().await;
    let handler = |_: Context| async {
        tokio::time::sleep(LONG).await;
        Ok(None)
    };
    let worker = bench.behind().handler("x", handler).grace(Duration::from_millis(100)).start().await.unwrap();
    let draft = Draft::new("x", &()).timeout(Duration::from_millis(50)).max_attempts(1);
    let id = bench.punctual.enqueue(draft).await.unwrap().id;
    assert_eq!(bench.punctual.wait(id, LONG).await.unwrap().status, Status::Dead);
    worker.stop().await;
    let logs = bench.punctual.admin("test").job(id).await.unwrap().logs;
    assert!(logs.last().is_some_and(|line| line.message.contains("still running")), "{logs:?}");
}

/// Crashes this number of workers while they run a job. The job is queued afterwards.
async fn crash(punctual: &Punctual, job: JobId, times: u32) {
    let (store, lease) = (punctual.store(), Duration::from_secs(30));
    for crashes in 0..times {
        let worker = WorkerId::from_bits(u128::from(crashes) + 1);
        let request = ClaimRequest { suspects: crashes > 0, ..ClaimRequest::new(worker, 1, lease) };
        let claim = store.claim(request).await.unwrap().claims.remove(0);
        assert_eq!(claim.job.id, job);
        assert_eq!(store.confirm(worker, vec![claim.attempt_id()]).await.unwrap(), [true]);
        store.end_leases(worker).await.unwrap();
        let lost = settle(&claim, Outcome::Lost { evidence: None }, 0.5);
        assert_eq!(store.settle(vec![lost]).await.unwrap(), [Settled::Done]);
        if crashes > 0 {
            punctual.admin("test").run(job).await.unwrap();
        }
    }
}

/// Stores suspects with this number of crashes each.
async fn enqueue_suspects(punctual: &Punctual, count: usize, crashes: u32) {
    for _ in 0..count {
        let job = punctual.enqueue(Draft::new("suspect", &())).await.unwrap().id;
        crash(punctual, job, crashes).await;
    }
}

/// Runs for a moment, so that others can start beside it.
async fn takes_a_moment(counted: Counted) -> HandlerResult {
    tokio::time::sleep(Duration::from_millis(30)).await;
    drop(counted);
    Ok(None)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_suspects_run_in_one_process() {
    let bench = Bench::new().await;
    let (suspects, others) = (Counter::default(), Counter::default());
    enqueue_suspects(&bench.punctual, 5, 1).await;
    bench.punctual.enqueue_all((0..20).map(|_| Draft::new("x", &()))).await.unwrap();
    let (of_suspects, of_others) = (suspects.clone(), others.clone());
    let worker = bench
        .behind()
        .handler("suspect", move |_: Context| takes_a_moment(of_suspects.begin()))
        .handler("x", move |_: Context| takes_a_moment(of_others.begin()))
        .start()
        .await
        .unwrap();
    worker.until_empty().await;
    assert_eq!((suspects.all(), suspects.most(), others.all()), (5, 1, 20));
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_its_second_crash_on_a_suspect_runs_alone() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    enqueue_suspects(&bench.punctual, 1, 2).await;
    bench.punctual.enqueue_all((0..40).map(|_| Draft::new("x", &()))).await.unwrap();
    let (of_suspect, of_others) = (counter.clone(), counter.clone());
    let alone = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&alone);
    let suspect = move |_: Context| {
        let (counter, seen, before) = (of_suspect.clone(), Arc::clone(&seen), of_suspect.now());
        let (counted, all) = (counter.begin(), counter.all());
        async move {
            let result = takes_a_moment(counted).await;
            seen.store(usize::from(before == 0 && counter.all() == all) + 1, Ordering::SeqCst);
            result
        }
    };
    let worker = bench
        .behind()
        .concurrency(4)
        .handler("suspect", suspect)
        .handler("x", move |_: Context| takes_a_moment(of_others.begin()))
        .start()
        .await
        .unwrap();
    worker.until_empty().await;
    assert_eq!(alone.load(Ordering::SeqCst), 2, "others ran beside it");
    assert_eq!((counter.all(), counter.most()), (41, 4));
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}
