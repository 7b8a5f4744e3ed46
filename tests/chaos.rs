//! Every engine under load, with all kinds of failures.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use std::{
    collections::HashMap,
    ffi::OsString,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use punctual::{
    Draft, JobId, Punctual, Status,
    core::{Filter, Limits, Page},
    postgres::sqlx::{Connection, Executor, PgConnection},
};
use punctual_servers::{Care, Direction, DiskFault, Fault as LinkFault, FaultyDisk, Postgres, Proxy, Redis};
use punctual_testkit::conformance::audit_store;
use punctual_tests::{
    Helper, Holder, Process, Role, TestStore, helper, load_duration,
    roles::chaos::{LEASE, now_micros},
    until,
};

const HELPER: Helper = helper!();
const WORKERS: usize = 4;
/// Maximum number of unfinished jobs: the workers always have more than they can do.
const BACKLOG: usize = 3_000;
/// An execution that Redis has dispatched and that its worker has not recorded within this time is given up.
const GRACE: Duration = punctual::core::dispatch::GRACE;

/// A failure, of some seconds unless it has a duration.
#[derive(Debug, Clone, Copy)]
enum Fault {
    WorkerKilled,
    WorkerFrozen,
    /// Another program holds SQLite's lock.
    FileLocked,
    /// The disk of the workers is full.
    DiskFull,
    /// The disk of the workers confirms no write: processes that write end.
    DiskUnconfirmed,
    PostgresKilled,
    PostgresReadOnly,
    /// The network between all processes and PostgreSQL.
    PostgresLink,
    RedisKilled,
    RedisEmptied,
    /// Redis is unavailable for so long that PostgreSQL dispatches the jobs.
    RedisAway,
    RedisFrozen,
    /// Redis has no memory left for writes.
    RedisFull,
    RedisLink,
}

impl Fault {
    const OF_SQLITE: &[Self] =
        &[Self::WorkerKilled, Self::WorkerFrozen, Self::FileLocked, Self::DiskFull, Self::DiskUnconfirmed];
    const OF_POSTGRES: &[Self] =
        &[Self::WorkerKilled, Self::WorkerFrozen, Self::PostgresKilled, Self::PostgresReadOnly, Self::PostgresLink];
    const OF_REDIS: &[Self] = &[
        Self::WorkerKilled,
        Self::WorkerFrozen,
        Self::PostgresKilled,
        Self::PostgresReadOnly,
        Self::PostgresLink,
        Self::RedisKilled,
        Self::RedisEmptied,
        Self::RedisAway,
        Self::RedisFrozen,
        Self::RedisFull,
        Self::RedisLink,
    ];
}

/// The environment in which failures are injected.
struct World {
    faults: &'static [Fault],
    test_store: TestStore,
    /// The disk of the workers.
    disk: Option<FaultyDisk>,
    /// All processes reach the servers through their proxies.
    postgres: Option<(Postgres, Proxy)>,
    redis: Option<(Redis, Proxy)>,
    workers: Vec<Process>,
    /// Start and end of PostgreSQL's crashes, in microseconds.
    crashes: Vec<(u64, u64)>,
}

impl World {
    fn new(faults: &'static [Fault], test_store: TestStore) -> Self {
        Self { faults, test_store, disk: None, postgres: None, redis: None, workers: Vec::new(), crashes: Vec::new() }
    }

    fn on_sqlite() -> Self {
        Self { disk: Some(FaultyDisk::new().unwrap()), ..Self::new(Fault::OF_SQLITE, TestStore::new()) }
    }

    fn on_postgres() -> Self {
        let server = Postgres::start(Care::Durable).unwrap();
        let link = Proxy::before(&server.url()).unwrap();
        let test_store = TestStore::on(&link.url_of(&server.url()).unwrap());
        Self { postgres: Some((server, link)), ..Self::new(Fault::OF_POSTGRES, test_store) }
    }

    fn on_redis() -> Self {
        let server = Redis::start().unwrap();
        let link = Proxy::before(&server.url()).unwrap();
        let Self { test_store, postgres, .. } = Self::on_postgres();
        let test_store = test_store.dispatched_by(&link.url_of(&server.url()).unwrap());
        Self { postgres, redis: Some((server, link)), ..Self::new(Fault::OF_REDIS, test_store) }
    }

    fn disk(&self) -> &FaultyDisk {
        self.disk.as_ref().unwrap()
    }

    fn postgres(&mut self) -> &mut (Postgres, Proxy) {
        self.postgres.as_mut().unwrap()
    }

    fn redis(&mut self) -> &mut (Redis, Proxy) {
        self.redis.as_mut().unwrap()
    }

    /// Starts the missing workers: some end by themselves.
    fn start_workers(&mut self) {
        self.workers.retain_mut(|worker| !worker.has_ended());
        // The ledger file is on another disk.
        let disk = self.disk.iter().flat_map(|disk| disk.variables(&self.test_store.file()).unwrap());
        let environment: Vec<(&str, OsString)> = disk.collect();
        while self.workers.len() < WORKERS {
            let mut command = HELPER.command(Role::ChaosWorker, &self.test_store);
            self.workers.push(Process::start(command.envs(environment.iter().map(|(name, value)| (name, value)))));
        }
    }

    async fn suffer(&mut self, fault: Fault, rng: &mut fastrand::Rng) {
        let lasts = Duration::from_millis(rng.u64(500..8_000));
        match fault {
            Fault::WorkerKilled => self.workers.swap_remove(rng.usize(..self.workers.len())).kill(),
            Fault::WorkerFrozen => {
                let worker = &self.workers[rng.usize(..self.workers.len())];
                worker.freeze(&self.test_store);
                tokio::time::sleep(LEASE + Duration::from_millis(rng.u64(..3_000))).await;
                worker.signal(nix::sys::signal::Signal::SIGCONT);
            }
            Fault::FileLocked => {
                let other = Holder::start(&self.test_store);
                tokio::time::sleep(lasts).await;
                other.release();
            }
            Fault::DiskFull => fail_disk(self.disk(), DiskFault::Full, lasts).await,
            Fault::DiskUnconfirmed => fail_disk(self.disk(), DiskFault::Sync, lasts).await,
            Fault::PostgresKilled => {
                let before = now_micros();
                self.postgres().0.crash().unwrap();
                self.crashes.push((before, now_micros()));
                self.postgres().0.start_again().unwrap();
            }
            Fault::PostgresReadOnly => {
                let url = self.postgres().0.url();
                set_read_only(&url, true).await;
                tokio::time::sleep(lasts).await;
                set_read_only(&url, false).await;
            }
            Fault::PostgresLink => fail(&self.postgres().1, lasts, rng).await,
            Fault::RedisKilled => {
                self.redis().0.kill().unwrap();
                tokio::time::sleep(Duration::from_millis(rng.u64(..1_000))).await;
                self.redis().0.start_again().unwrap();
            }
            Fault::RedisEmptied => drop(self.redis().0.execute("FLUSHALL").unwrap()),
            Fault::RedisAway => {
                self.redis().0.kill().unwrap();
                tokio::time::sleep(Duration::from_secs(10)).await;
                self.redis().0.start_again().unwrap();
            }
            Fault::RedisFrozen => {
                self.redis().0.freeze().unwrap();
                tokio::time::sleep(lasts).await;
                self.redis().0.thaw().unwrap();
            }
            Fault::RedisFull => {
                self.redis().0.execute("CONFIG SET maxmemory 1").unwrap();
                tokio::time::sleep(lasts).await;
                self.redis().0.execute("CONFIG SET maxmemory 0").unwrap();
            }
            Fault::RedisLink => fail(&self.redis().1, lasts, rng).await,
        }
    }
}

async fn fail_disk(disk: &FaultyDisk, fault: DiskFault, lasts: Duration) {
    disk.fail(fault).unwrap();
    tokio::time::sleep(lasts).await;
    disk.mend(fault).unwrap();
}

/// Makes PostgreSQL refuse all writes, also those of open connections.
async fn set_read_only(url: &str, read_only: bool) {
    let mut operator = PgConnection::connect(url).await.unwrap();
    let setting = if read_only {
        "alter system set default_transaction_read_only = on"
    } else {
        "alter system reset default_transaction_read_only"
    };
    operator.execute(setting).await.unwrap();
    operator.execute("select pg_reload_conf()").await.unwrap();
}

/// Breaks a network connection for some seconds.
async fn fail(link: &Proxy, lasts: Duration, rng: &mut fastrand::Rng) {
    let fault = match rng.u8(..7) {
        0 => LinkFault::Delay(Duration::from_millis(rng.u64(1..500))),
        1 => LinkFault::Swallow(Direction::Both),
        2 => LinkFault::Swallow(Direction::ToServer),
        3 => LinkFault::Swallow(Direction::ToClient),
        4 => LinkFault::Refuse,
        5 => LinkFault::LoseAnswers { probability: 0.02, seed: rng.u64(..) },
        _ => LinkFault::LoseAnswers { probability: 0.5, seed: rng.u64(..) },
    };
    let resets = rng.bool();
    eprintln!("        {fault:?} for {lasts:?}; resets: {resets}");
    link.set(fault);
    if resets {
        link.reset();
    }
    tokio::time::sleep(lasts).await;
    link.heal();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_whatever_fails_no_job_is_lost_and_each_ends_once() {
    survives(World::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_whatever_fails_no_job_is_lost_and_each_ends_once() {
    survives(World::on_postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_whatever_fails_no_job_is_lost_and_each_ends_once() {
    survives(World::on_redis()).await;
}

/// Injects all failures in random order under full load. `PUNCTUAL_TEST_SEED` repeats an order.
async fn survives(mut world: World) {
    let seed = std::env::var("PUNCTUAL_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    eprintln!("PUNCTUAL_TEST_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let punctual = world.test_store.connect().await;
    let limits = Limits { concurrency: Some(15), ..Limits::default() };
    punctual.admin("test").set_queue_limits("limited", limits).await.unwrap();
    world.start_workers();
    let (acknowledged, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let enqueuers: Vec<_> =
        (0..4).map(|_| tokio::spawn(enqueue_on(punctual.clone(), acknowledged.clone(), stop.clone()))).collect();
    let began = Instant::now();
    let mut faults = Vec::new();
    while began.elapsed() < load_duration() {
        if faults.is_empty() {
            faults = world.faults.to_vec();
            rng.shuffle(&mut faults);
        }
        let fault = faults.pop().unwrap();
        eprintln!("{:5.1} s: {fault:?}; {} jobs", began.elapsed().as_secs_f32(), acknowledged.lock().unwrap().len());
        world.suffer(fault, &mut rng).await;
        tokio::time::sleep(Duration::from_millis(rng.u64(500..5_000))).await;
        world.start_workers();
    }
    stop.store(true, Ordering::Relaxed);
    for enqueuer in enqueuers {
        enqueuer.await.unwrap();
    }
    let acknowledged = std::mem::take(&mut *acknowledged.lock().unwrap());
    all_end(&punctual, &mut world).await;
    if let Some((redis, _)) = &world.redis {
        until("Redis to hold no job", async || leftovers(redis).is_empty()).await;
    }
    world.workers.clear();
    for id in &acknowledged {
        assert_eq!(punctual.job(*id).await.unwrap().status, Status::Succeeded, "{id}");
    }
    let audited = audit_store(&**punctual.store()).await;
    assert!(audited >= acknowledged.len());
    assert_executed_one_at_a_time(&world);
    eprintln!("{audited} jobs, {} of them acknowledged", acknowledged.len());
}

/// Enqueues batches while not too many jobs wait, and records acknowledged jobs. Continues after every failure.
async fn enqueue_on(punctual: Punctual, acknowledged: Arc<Mutex<Vec<JobId>>>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let drafts = (0..fastrand::usize(1..100)).map(|_| {
            let draft =
                Draft::new("x", &fastrand::u32(..)).max_attempts(1_000).max_crashes(100).priority(fastrand::u8(..2));
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

/// Number of unfinished jobs, if the store answers.
async fn active(punctual: &Punctual) -> Option<usize> {
    let overview = punctual.admin("test").overview().await.ok()?;
    let jobs = overview.jobs.iter().filter(|(status, _)| status.is_active()).map(|(_, jobs)| *jobs as usize);
    Some(jobs.sum())
}

/// Waits until all jobs have finished. After five minutes, fails with details of some that have not.
async fn all_end(punctual: &Punctual, world: &mut World) {
    let ended = until("all jobs to end", || {
        world.start_workers();
        async { active(punctual).await == Some(0) }
    });
    if tokio::time::timeout(Duration::from_secs(290), ended).await.is_ok() {
        return;
    }
    let statuses = Status::ALL.into_iter().filter(|status| status.is_active()).collect();
    let found = punctual.store().list(Filter { statuses, ..Filter::default() }, Page::first(5)).await.unwrap();
    for job in &found.jobs {
        let events = punctual.store().history(job.id).await.unwrap().events;
        eprintln!("{job:?}\n{events:#?}");
    }
    if let Some((redis, _)) = &world.redis {
        print_keys(redis);
    }
    panic!("{:?} jobs did not end", active(punctual).await);
}

fn print_keys(redis: &Redis) {
    for key in redis.execute("KEYS punctual:*").unwrap() {
        let kind = redis.execute(&format!("TYPE {key}")).unwrap().concat();
        let content = match kind.as_str() {
            "zset" => redis.execute(&format!("ZRANGE {key} 0 20 WITHSCORES")),
            "hash" => redis.execute(&format!("HGETALL {key}")),
            "set" => redis.execute(&format!("SMEMBERS {key}")),
            "list" => redis.execute(&format!("LRANGE {key} 0 20")),
            _ => redis.execute(&format!("GET {key}")),
        };
        eprintln!("{key} ({kind}): {content:?}");
    }
}

/// The keys of Redis that contain data of a job.
fn leftovers(redis: &Redis) -> Vec<String> {
    let keys = redis.execute("KEYS punctual:*").unwrap();
    let of_none = |key: &String| {
        let ends = [":state", ":repairs", ":owner"].iter().any(|end| key.ends_with(end));
        ends || [":worker:", ":lock:punctual."].iter().any(|part| key.contains(part))
    };
    keys.into_iter().filter(|key| !of_none(key)).collect()
}

/// Maximum time after which PostgreSQL writes data that need not survive its crash: a crash may lose what began within
/// it.
const UNWRITTEN: Duration = Duration::from_secs(1);

/// Asserts that no run of a job began twice, except for a run dispatched by Redis that its first worker had given up or
/// lost before it was recorded, and for a run that PostgreSQL lost in a crash.
fn assert_executed_one_at_a_time(World { test_store, crashes, redis, .. }: &World) {
    let unwritten = UNWRITTEN.as_micros() as u64;
    let forgotten = |first: u64, second: u64| {
        crashes.iter().any(|(from, until)| (from - unwritten..=*until).contains(&first) && second >= *from)
    };
    let mut starts: HashMap<(String, String), Vec<u64>> = HashMap::new();
    for line in test_store.ledger_lines() {
        let [job, run, at] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        starts.entry((job.to_owned(), run.to_owned())).or_default().push(at.parse().unwrap());
    }
    for (run, mut at) in starts {
        at.sort_unstable();
        for pair in at.windows(2) {
            let apart = Duration::from_micros(pair[1] - pair[0]);
            let given_up = redis.is_some() && apart >= GRACE;
            assert!(
                given_up || forgotten(pair[0], pair[1]),
                "run {run:?} began twice within {apart:?}, at {}; crashes {crashes:?}",
                pair[0]
            );
        }
    }
}
