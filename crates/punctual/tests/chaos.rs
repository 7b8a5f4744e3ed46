//! Redis in front of PostgreSQL, while everything fails that can fail.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod common;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use common::{Place, Process, until};
use punctual::{
    Context, Draft, Failure, JobId, Punctual, RunningWorker, Status, Worker,
    core::{Filter, Limits, Page},
};
use punctual_servers::{Care, Direction, Fault as LinkFault, Postgres, Proxy, Redis};
use punctual_testkit::conformance::audit_store;

const WORKERS: usize = 4;
const LEASE: Duration = Duration::from_secs(3);
/// So many jobs are not done yet at most: the workers always have more than they can do.
const BACKLOG: usize = 3_000;
/// An execution that its worker has not recorded by then is given up.
const GRACE: Duration = punctual::core::dispatch::GRACE;

#[test]
fn worker_process() {
    common::in_process(async |url: String| {
        let starts = common::Ledger::open(std::env::var("PUNCTUAL_TEST_LEDGER").unwrap().as_ref());
        let starts = Arc::new(starts);
        // What it needs may just be away.
        let _kept = loop {
            match start_worker(&url, Arc::clone(&starts)).await {
                Ok(worker) => break worker,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        std::future::pending::<()>().await;
    });
}

async fn start_worker(url: &str, starts: Arc<common::Ledger>) -> Result<RunningWorker, punctual::Error> {
    let worker = Worker::builder(Punctual::connect(url).await?).handler("x", move |ctx: Context| {
        starts.write(&format!("{} {} {}\n", ctx.id(), ctx.claim().job.run, now_micros()));
        async move {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..200))).await;
            let fails = ctx.claim().job.spec.payload.read::<u32>().unwrap().is_multiple_of(10);
            if fails && ctx.attempt() == 1 { Err(Failure::new("as planned")) } else { Ok(None) }
        }
    });
    worker.concurrency(20).lease(LEASE).start().await
}

fn now_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// Something that goes wrong.
#[derive(Debug, Clone, Copy)]
enum Fault {
    WorkerKilled,
    WorkerFrozen,
    RedisKilled,
    RedisEmptied,
    RedisAway,
    RedisFrozen,
    PostgresKilled,
    /// The network between everybody and Redis, for some seconds.
    RedisLink,
    /// The same for PostgreSQL.
    PostgresLink,
}

impl Fault {
    const ALL: [Self; 9] = [
        Self::WorkerKilled,
        Self::WorkerFrozen,
        Self::RedisKilled,
        Self::RedisEmptied,
        Self::RedisAway,
        Self::RedisFrozen,
        Self::PostgresKilled,
        Self::RedisLink,
        Self::PostgresLink,
    ];
}

/// What fails.
struct World {
    postgres: Postgres,
    redis: Redis,
    /// Everybody reaches the servers by way of these.
    postgres_link: Proxy,
    redis_link: Proxy,
    place: Place,
    workers: Vec<Process>,
    /// From when until when PostgreSQL crashed, in microseconds.
    crashes: Vec<(u64, u64)>,
}

impl World {
    fn start() -> Self {
        let (postgres, redis) = (Postgres::start(Care::Durable).unwrap(), Redis::start().unwrap());
        let (postgres_link, redis_link) =
            (Proxy::before(&postgres.url()).unwrap(), Proxy::before(&redis.url()).unwrap());
        let place = Place::on(&postgres_link.url_of(&postgres.url()).unwrap())
            .dispatched_by(&redis_link.url_of(&redis.url()).unwrap());
        let workers = (0..WORKERS).map(|_| place.start("worker_process", 0)).collect();
        Self { postgres, redis, postgres_link, redis_link, place, workers, crashes: Vec::new() }
    }

    async fn suffer(&mut self, fault: Fault, rng: &mut fastrand::Rng) {
        let wait = async |duration| tokio::time::sleep(duration).await;
        match fault {
            Fault::WorkerKilled => {
                self.workers.swap_remove(rng.usize(..WORKERS)).kill();
                self.workers.push(self.place.start("worker_process", 0));
            }
            Fault::WorkerFrozen => {
                let worker = &self.workers[rng.usize(..WORKERS)];
                worker.freeze();
                wait(LEASE + Duration::from_millis(rng.u64(..3_000))).await;
                worker.signal(nix::sys::signal::Signal::SIGCONT);
            }
            Fault::RedisKilled => {
                self.redis.kill().unwrap();
                wait(Duration::from_millis(rng.u64(..1_000))).await;
                self.redis.start_again().unwrap();
            }
            Fault::RedisEmptied => drop(self.redis.ask("FLUSHALL").unwrap()),
            Fault::RedisAway => {
                self.redis.kill().unwrap();
                wait(Duration::from_secs(10)).await;
                self.redis.start_again().unwrap();
            }
            Fault::RedisFrozen => {
                self.redis.freeze().unwrap();
                wait(Duration::from_millis(rng.u64(..10_000))).await;
                self.redis.thaw().unwrap();
            }
            Fault::PostgresKilled => {
                let before = now_micros();
                self.postgres.crash().unwrap();
                self.crashes.push((before, now_micros()));
                self.postgres.start_again().unwrap();
            }
            Fault::RedisLink => fail(&self.redis_link, rng).await,
            Fault::PostgresLink => fail(&self.postgres_link, rng).await,
        }
    }
}

/// A network fails for some seconds.
async fn fail(link: &Proxy, rng: &mut fastrand::Rng) {
    let fault = match rng.u8(..7) {
        0 => LinkFault::Delay(Duration::from_millis(rng.u64(1..500))),
        1 => LinkFault::Swallow(Direction::Both),
        2 => LinkFault::Swallow(Direction::ToServer),
        3 => LinkFault::Swallow(Direction::ToClient),
        4 => LinkFault::Refuse,
        5 => LinkFault::LoseAnswers { probability: 0.02, seed: rng.u64(..) },
        _ => LinkFault::LoseAnswers { probability: 0.5, seed: rng.u64(..) },
    };
    let (resets, lasts) = (rng.bool(), Duration::from_millis(rng.u64(500..8_000)));
    eprintln!("        {fault:?} for {lasts:?}; resets: {resets}");
    link.set(fault);
    if resets {
        link.reset();
    }
    tokio::time::sleep(lasts).await;
    link.heal();
}

/// How long everything fails: `PUNCTUAL_TEST_CHAOS_SECONDS`, or half a minute.
fn chaos_time() -> Duration {
    let seconds = std::env::var("PUNCTUAL_TEST_CHAOS_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(30))
}

/// Under full load, everything fails in random order. `PUNCTUAL_TEST_SEED` repeats an order.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_fails_no_job_is_lost_and_each_ends_once() {
    let seed = std::env::var("PUNCTUAL_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    eprintln!("PUNCTUAL_TEST_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut world = World::start();
    let punctual = world.place.connect().await;
    let limits = Limits { concurrency: Some(15), ..Limits::default() };
    punctual.admin("test").set_queue_limits("limited", limits).await.unwrap();
    let (acknowledged, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let enqueuers: Vec<_> =
        (0..4).map(|_| tokio::spawn(enqueue_on(punctual.clone(), acknowledged.clone(), stop.clone()))).collect();
    let began = Instant::now();
    let mut faults = Vec::new();
    while began.elapsed() < chaos_time() {
        if faults.is_empty() {
            faults = Fault::ALL.to_vec();
            rng.shuffle(&mut faults);
        }
        let fault = faults.pop().unwrap();
        eprintln!("{:5.1} s: {fault:?}; {} jobs", began.elapsed().as_secs_f32(), acknowledged.lock().unwrap().len());
        world.suffer(fault, &mut rng).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(500..5_000))).await;
    }
    stop.store(true, Ordering::Relaxed);
    for enqueuer in enqueuers {
        enqueuer.await.unwrap();
    }
    let acknowledged = std::mem::take(&mut *acknowledged.lock().unwrap());
    all_end(&punctual, &world.redis).await;
    until("Redis to hold no job", async || leftovers(&world.redis).is_empty()).await;
    drop(world.workers);
    for id in &acknowledged {
        assert_eq!(punctual.job(*id).await.unwrap().status, Status::Succeeded, "{id}");
    }
    let audited = audit_store(&**punctual.store()).await;
    assert!(audited >= acknowledged.len());
    assert_executed_one_at_a_time(&world.place, &world.crashes);
    eprintln!("{audited} jobs, {} of them acknowledged", acknowledged.len());
}

/// Enqueues batches, as long as not too many jobs wait, and notes what was acknowledged. Whatever fails, it goes on.
async fn enqueue_on(punctual: Punctual, acknowledged: Arc<Mutex<Vec<JobId>>>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let drafts = (0..fastrand::usize(1..100)).map(|_| {
            let draft = Draft::new("x", &fastrand::u32(..)).max_attempts(1_000).priority(fastrand::u8(..2));
            match fastrand::u8(..20) {
                0 | 1 => draft.delay(Duration::from_millis(fastrand::u64(..3_000))),
                2 => draft.concurrency_key(format!("k{}", fastrand::u8(..20))),
                3 => draft.queue("limited"),
                4 => draft.queue("other"),
                _ => draft,
            }
        });
        match punctual.enqueue_all(drafts).await {
            Ok(jobs) => acknowledged.lock().unwrap().extend(jobs.iter().map(|job| job.id)),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while !stop.load(Ordering::Relaxed) && active(&punctual).await.is_none_or(|jobs| jobs > BACKLOG) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// How many jobs have not come to an end, if the store can say.
async fn active(punctual: &Punctual) -> Option<usize> {
    let overview = punctual.admin("test").overview().await.ok()?;
    let jobs = overview.jobs.iter().filter(|(status, _)| status.is_active()).map(|(_, jobs)| *jobs as usize);
    Some(jobs.sum())
}

/// Waits until all jobs have come to an end. If they don't within five minutes, says what is known of some that did not.
async fn all_end(punctual: &Punctual, redis: &Redis) {
    let ended = until("all jobs to end", async || active(punctual).await == Some(0));
    if tokio::time::timeout(Duration::from_secs(290), ended).await.is_ok() {
        return;
    }
    let statuses = Status::ALL.into_iter().filter(|status| status.is_active()).collect();
    let found = punctual.store().list(Filter { statuses, ..Filter::default() }, Page::first(5)).await.unwrap();
    for job in &found.jobs {
        let events = punctual.store().events(job.id).await.unwrap();
        eprintln!("{job:?}\n{events:#?}");
    }
    for key in redis.ask("KEYS punctual:*").unwrap() {
        let kind = redis.ask(&format!("TYPE {key}")).unwrap().concat();
        let content = match kind.as_str() {
            "zset" => redis.ask(&format!("ZRANGE {key} 0 20 WITHSCORES")),
            "hash" => redis.ask(&format!("HGETALL {key}")),
            "set" => redis.ask(&format!("SMEMBERS {key}")),
            "list" => redis.ask(&format!("LRANGE {key} 0 20")),
            _ => redis.ask(&format!("GET {key}")),
        };
        eprintln!("{key} ({kind}): {content:?}");
    }
    panic!("{:?} jobs did not end", active(punctual).await);
}

/// The keys of Redis that hold something of a job.
fn leftovers(redis: &Redis) -> Vec<String> {
    let keys = redis.ask("KEYS punctual:*").unwrap();
    let of_none = |key: &String| {
        let ends = [":state", ":repairs", ":owner"].iter().any(|end| key.ends_with(end));
        ends || [":worker:", ":lock:punctual."].iter().any(|part| key.contains(part))
    };
    keys.into_iter().filter(|key| !of_none(key)).collect()
}

/// PostgreSQL writes what need not survive its crash within so long, so that it may forget what began in that time.
const UNWRITTEN: Duration = Duration::from_secs(1);

/// No run of a job began twice, but for one that its first worker had given up or lost before anybody knew of it, and for one that
/// PostgreSQL forgot as it crashed.
fn assert_executed_one_at_a_time(place: &Place, crashes: &[(u64, u64)]) {
    let unwritten = UNWRITTEN.as_micros() as u64;
    let forgotten = |first: u64, second: u64| {
        crashes.iter().any(|(from, until)| (from - unwritten..=*until).contains(&first) && second >= *from)
    };
    let mut starts: HashMap<(String, String), Vec<u64>> = HashMap::new();
    for line in place.ledger_lines() {
        let [job, run, at] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        starts.entry((job.to_owned(), run.to_owned())).or_default().push(at.parse().unwrap());
    }
    for (run, mut at) in starts {
        at.sort_unstable();
        for pair in at.windows(2) {
            let apart = Duration::from_micros(pair[1] - pair[0]);
            assert!(
                apart >= GRACE || forgotten(pair[0], pair[1]),
                "run {run:?} began twice within {apart:?}, at {}; crashes {crashes:?}",
                pair[0]
            );
        }
    }
}
