//! A worker that is cut off from its store stops its jobs by itself.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use punctual::{Context, Draft, Failure, Program, Punctual, Status, Worker};
use punctual_servers::{Direction, Fault, Proxy};
use punctual_testkit::{When, conformance::audit_store};
use punctual_tests::{TestStore, processes_with, until};

use crate::bench::{Bench, Counter, LONG};

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
    assert_eq!(done.status, Status::Succeeded);
    assert_eq!(done.run, 2);
    assert_eq!(cut_off.stats().lost_leases, 1);
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
