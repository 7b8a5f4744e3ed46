//! SQLite passes the conformance suite, and agrees with the model on random operations.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use punctual_core::{
    JobId, Limits, Outcome, QueueSave, QueueSettings, Retry, Settled, Status, Timestamp, store::ports::*,
};
use punctual_sql::sqlite::{Options, SqliteStore, rusqlite::Connection};
use punctual_testkit::{Fixture, conformance, random};

async fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let clock = Fixture::start();
    let options = Options::new(folder.path().join("punctual.db")).clock(clock.clone());
    Fixture::new(SqliteStore::open(options).await.unwrap(), clock).keep(folder)
}

conformance!(fixture);

#[tokio::test]
async fn random_operations_agree_with_the_model() {
    for seed in random::seeds(1..=2) {
        random::replay(&fixture().await, seed, 400).await;
    }
}

#[tokio::test]
async fn transferred_data_behaves_as_in_the_original_store() {
    for seed in random::seeds(1..=2) {
        random::replay_transferred(&fixture().await, seed, 200).await;
    }
}

#[tokio::test]
async fn a_job_whose_row_is_corrupt_is_set_aside_and_the_others_run() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, path) = (Fixture::start(), folder.path().join("punctual.db"));
    let fx = Fixture::new(SqliteStore::open(Options::new(&path).clock(clock.clone())).await.unwrap(), clock);
    // A few jobs are read in the claim's transaction, many by a reader.
    for count in [3, 100] {
        let ids = fx.enqueue_all((0..count).map(|_| fx.new_job(|_| ())).collect()).await;
        let connection = Connection::open(&path).unwrap();
        let corrupt = "update punctual_jobs set options = '{\"tags\": 5}' where id = ?1";
        assert_eq!(connection.execute(corrupt, [ids[1].to_bytes()]).unwrap(), 1);
        let claims = fx.claim(fx.worker(), 200).await;
        assert_eq!(claims.len(), count - 1);
        let refused = fx.store.get(ids[1]).await.unwrap_err();
        assert!(!refused.is_transient() && refused.to_string().contains(&ids[1].to_string()), "{refused}");
        // A corrupt row that a reader found is settled in a transaction of its own.
        fx.store.promote(1).await.unwrap();
        let history = fx.store.history(ids[1]).await.unwrap().events;
        assert_eq!(history.last().unwrap().status, Status::Dead);
        for claim in &claims {
            assert_eq!(fx.settle(claim, Outcome::Succeeded { result: None }).await, Settled::Done);
        }
        assert!(fx.claim(fx.worker(), 200).await.is_empty());
        connection.execute("update punctual_jobs set options = null", []).unwrap();
        let error = fx.job(ids[1]).await.error.unwrap();
        assert!(error.message.starts_with("corrupt row"), "{error}");
    }
}

/// The settings of a queue with this limit, saved after this revision.
fn limited(queue: &str, concurrency: Option<u32>, revision: u64) -> QueueSave {
    let limits = Limits { concurrency, ..Limits::default() };
    let settings = QueueSettings { limits, ..QueueSettings::default() };
    QueueSave { name: queue.into(), settings, revision, actor: "ada".into(), action: "limits changed".into() }
}

#[tokio::test]
async fn a_queue_whose_settings_cannot_be_read_starts_no_jobs_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, path) = (Fixture::start(), folder.path().join("punctual.db"));
    let fx = Fixture::new(SqliteStore::open(Options::new(&path).clock(clock.clone())).await.unwrap(), clock);
    assert!(fx.store.save_queue(limited("a", Some(1), 0)).await.unwrap());
    let held = fx.enqueue(|spec| spec.queue = "a".into()).await;
    let other = fx.enqueue(|spec| spec.queue = "b".into()).await;
    let corrupt = "update punctual_queues set settings = '{' where name = 'a'";
    assert_eq!(Connection::open(&path).unwrap().execute(corrupt, []).unwrap(), 1);
    // Claims read the settings again after a change.
    assert!(fx.store.save_queue(limited("b", None, 0)).await.unwrap());
    let claimed: Vec<JobId> = fx.claim(fx.worker(), 10).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(claimed, [other]);
    let queues = fx.store.queues().await.unwrap();
    let start: Vec<_> = queues.iter().map(|queue| (&*queue.name, queue.settings.starts_jobs())).collect();
    assert_eq!(start, [("a", false), ("b", true)]);
    let checked = async || fx.store.check().await.unwrap().into_iter().find(|one| one.check == "queues").unwrap();
    let found = checked().await;
    assert!(!found.ok && found.message.contains("settings of a cannot be read, and none of its jobs start"));
    assert!(fx.store.save_queue(limited("a", Some(2), 1)).await.unwrap());
    let claimed: Vec<JobId> = fx.claim(fx.worker(), 10).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(claimed, [held]);
    assert!(checked().await.ok);
}

#[tokio::test]
async fn a_job_whose_row_is_corrupt_is_set_aside_when_it_becomes_due_and_when_its_worker_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, path) = (Fixture::start(), folder.path().join("punctual.db"));
    let fx = Fixture::new(SqliteStore::open(Options::new(&path).clock(clock.clone())).await.unwrap(), clock);
    let change = |id: JobId, change: &str| {
        let sql = format!("update punctual_jobs set {change} where id = ?1");
        assert_eq!(Connection::open(&path).unwrap().execute(&sql, [id.to_bytes()]).unwrap(), 1);
    };
    // Two are corrupted in different ways; the last one is not.
    let due: Vec<JobId> =
        vec![fx.enqueue_in(1, |_| ()).await, fx.enqueue_in(1, |_| ()).await, fx.enqueue_in(1, |_| ()).await];
    change(due[0], "options = '{'");
    change(due[1], "status = 'canceled'");
    fx.pass(2);
    let ids: Vec<JobId> = fx.claim(fx.worker(), 10).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(ids, due[1..], "what was written as a status is replaced");
    assert_eq!(fx.store.history(due[0]).await.unwrap().events.last().unwrap().status, Status::Dead);
    // The worker is lost.
    change(due[1], "options = '{\"tags\": 5}'");
    fx.pass(60);
    assert_eq!(fx.reap().await, 1);
    assert_eq!(fx.store.history(due[1]).await.unwrap().events.last().unwrap().status, Status::Dead);
    assert!(fx.store.expired(10).await.unwrap().is_empty());
    for id in &due[..2] {
        change(*id, "options = null");
        let error = fx.job(*id).await.error.unwrap();
        assert!(error.message.starts_with("corrupt row"), "{error}");
    }
}

/// A process remembers its claims. Changes by other processes since then must take precedence.
#[tokio::test]
async fn the_claims_that_one_process_remembers_do_not_affect_another() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Fixture::start();
    let open = || SqliteStore::open(Options::new(folder.path().join("punctual.db")).clock(clock.clone()));
    let one = Fixture::new(open().await.unwrap(), clock.clone());
    let two = Fixture::new(open().await.unwrap(), clock.clone());
    let id = one.enqueue(|_| ()).await;
    let first = one.claim_one(one.worker()).await;
    one.pass(60);
    assert_eq!(two.reap().await, 1);
    let second = two.claim_one(two.worker()).await;
    let success = || Outcome::Succeeded { result: None };
    // The second execution ends through the process that remembers the first.
    assert_eq!(one.settle(&second, success()).await, Settled::Done);
    assert_eq!(two.settle(&second, success()).await, Settled::Stale);
    assert_eq!(one.settle(&first, success()).await, Settled::Stale);
    assert_eq!(one.history(id).await, two.history(id).await);
    assert_eq!(one.store.history(id).await.unwrap().attempts.len(), 2);
    // The claim that the first process remembers is outdated.
    one.enqueue(|_| ()).await;
    let first = one.claim_one(one.worker()).await;
    one.pass(60);
    assert_eq!(two.reap().await, 1);
    assert_eq!(one.settle(&first, success()).await, Settled::Stale);
    let second = two.claim_one(two.worker()).await;
    assert_eq!(two.settle(&second, success()).await, Settled::Done);
}

/// The first process creates the file; opening fails for none of the others meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_may_be_opened_by_many_at_once() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let open = || SqliteStore::open(Options::new(folder.path().join("punctual.db")));
        let opened = tokio::join!(open(), open(), open(), open(), open(), open());
        for store in [opened.0, opened.1, opened.2, opened.3, opened.4, opened.5] {
            Fixture::new(store.unwrap(), Fixture::start()).store.counts().await.unwrap();
        }
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Two stores on one file, as in two processes, on a machine whose clock can be set.
async fn two_processes() -> (Fixture, Fixture) {
    let folder = tempfile::tempdir().unwrap();
    let clock = Fixture::start();
    let options = Options::new(folder.path().join("punctual.db")).clock(clock.clone());
    let one = SqliteStore::open(options.clone()).await.unwrap();
    let two = SqliteStore::open(options).await.unwrap();
    (Fixture::new(one, clock.clone()).keep(folder), Fixture::new(two, clock))
}

/// The result of `doctor` for the clock.
async fn clock_diagnostic(fx: &Fixture) -> (bool, String) {
    let diagnostics = fx.store.check().await.unwrap();
    let found = diagnostics.into_iter().find(|diagnostic| diagnostic.check == "clock").unwrap();
    (found.ok, found.message)
}

#[tokio::test]
async fn a_clock_that_is_set_forward_ends_no_lease_early() {
    let (one, two) = two_processes().await;
    one.enqueue(|_| ()).await;
    let worker = one.worker();
    let claim = one.claim_one(worker).await;
    assert!(clock_diagnostic(&one).await.0);
    one.clock.step_to(one.now().after(HOUR));
    assert_eq!(two.reap().await, 0, "the lease has 30 s left, whatever the time of the clock");
    let (ok, message) = clock_diagnostic(&two).await;
    assert!(!ok && message.contains("set forward by 60 min"), "{message}");
    let lease = Duration::from_secs(30);
    assert_eq!(one.store.extend(worker, lease, vec![claim.attempt_id()]).await.unwrap(), [true]);
    one.pass(29);
    assert_eq!(two.reap().await, 0);
    one.pass(2);
    assert_eq!(two.reap().await, 1, "a dead worker is found when its lease has passed");
}

#[tokio::test]
async fn a_clock_that_is_set_back_makes_no_lease_retry_or_lock_last_longer() {
    let (one, two) = two_processes().await;
    // All these times are from a clock that is one hour ahead.
    one.clock.step_to(one.now().after(HOUR));
    let retried = one.enqueue(|spec| spec.name = "retried".into()).await;
    let failing = one.claim_one(one.worker()).await;
    let failure = Outcome::Failed {
        fault: punctual_core::JobError::new("no luck"),
        retry: Retry::After(Duration::from_secs(60)),
    };
    assert_eq!(one.settle(&failing, failure).await, Settled::Done);
    let scheduled = one.enqueue_in(600, |spec| spec.name = "scheduled".into()).await;
    one.enqueue(|spec| spec.name = "lost".into()).await;
    one.claim_one(one.worker()).await;
    assert!(one.store.lock("x".into(), "one".into(), Duration::from_secs(10)).await.unwrap().is_some());
    let run_at = async |id| -> Timestamp { one.store.get(id).await.unwrap().unwrap().run_at };
    let before = (run_at(retried).await, run_at(scheduled).await);
    one.clock.step_to(one.now().before(HOUR));
    one.pass(31);
    // Any write detects the step; workers write at least once every ten seconds.
    assert!(two.store.lock("x".into(), "two".into(), Duration::from_secs(10)).await.unwrap().is_some());
    assert_eq!(two.reap().await, 1, "the lease had 30 s");
    assert_eq!(run_at(retried).await, before.0.before(HOUR), "a retry waits for a duration");
    assert_eq!(run_at(scheduled).await, before.1, "a requested time stays");
    one.pass(30);
    assert!(two.store.promote(10).await.unwrap() >= 1);
    assert_eq!(two.store.get(retried).await.unwrap().unwrap().status, Status::Queued);
    let (ok, message) = clock_diagnostic(&two).await;
    assert!(!ok && message.contains("set back by 60 min"), "{message}");
    for diagnostic in two.store.check().await.unwrap() {
        assert!(diagnostic.ok || diagnostic.check == "clock", "{}: {}", diagnostic.check, diagnostic.message);
    }
    one.pass(24 * 3_600);
    assert!(clock_diagnostic(&two).await.0, "the step is reported for a day");
}

#[tokio::test]
async fn the_real_clock_shows_no_step_unless_it_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(Options::new(folder.path().join("punctual.db")));
    let (one, two) = (open().await.unwrap(), open().await.unwrap());
    for (store, owner) in [(&one, "one"), (&two, "two"), (&one, "one")] {
        let token = store.lock("x".into(), owner.into(), Duration::ZERO).await.unwrap();
        assert!(token.is_some() && store.clock_step().await.unwrap().is_none());
    }
}
