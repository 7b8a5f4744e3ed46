//! Common Redis setups: passwords, a user with few permissions, TLS, a sentinel.

use std::time::Duration;

use punctual::{Context, Draft, Status, Worker};
use punctual_servers::Redis;
use punctual_tests::{
    Helper, Process, Role, TestStore, helper,
    roles::tls::{redis_diagnostic, runs_jobs},
    until,
};

const HELPER: Helper = helper!();
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_password_in_the_address_is_used_and_never_shown() {
    let redis = Redis::start_with(&["--requirepass", "s3cret"]).unwrap();
    let address = |password: &str| format!("redis://:{password}@127.0.0.1:{}", redis.port());
    let punctual = TestStore::postgres().dispatched_by(&address("s3cret")).connect().await;
    runs_jobs(&punctual).await;
    assert!(!punctual.store().info().location.contains("s3cret"));
    // With the wrong password, jobs run without Redis, and the doctor reports the reason.
    let wrong = TestStore::postgres().dispatched_by(&address("gu3ss")).connect().await;
    let (ok, message) = redis_diagnostic(&wrong).await;
    assert!(!ok && message.contains("--dispatch") && !message.contains("gu3ss"), "{message}");
    let worker = Worker::builder(wrong.clone()).handler("x", |_: Context| async { Ok(None) }).start().await.unwrap();
    let id = wrong.enqueue(Draft::new("x", &())).await.unwrap().id;
    assert_eq!(wrong.wait(id, LONG).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
}

/// As described in docs/redis.md.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_may_do_little_is_enough() {
    let rights = "--user punctual on >s3cret ~punctual:* &punctual:* +@all -@dangerous +info --user default off";
    let redis = Redis::start_with(&rights.split(' ').collect::<Vec<_>>()).unwrap();
    let address = format!("redis://punctual:s3cret@127.0.0.1:{}", redis.port());
    runs_jobs(&TestStore::postgres().dispatched_by(&address).connect().await).await;
}

#[tokio::test]
async fn tls_is_spoken_and_checked() {
    let redis = Redis::start_with_tls(&["--requirepass", "s3cret"]).unwrap();
    let address = format!("rediss://:s3cret@localhost:{}", redis.port());
    let test_store = TestStore::postgres().dispatched_by(&address);
    let mut trusts = HELPER.command(Role::TrustsRedis, &test_store);
    let trusting = Process::start(trusts.env("SSL_CERT_FILE", redis.authority()));
    assert!(trusting.wait().success());
    let doubting = HELPER.start(Role::DoubtsRedis, &test_store);
    assert!(doubting.wait().success(), "a client that does not trust it reports that");
}

/// Redis is watched by a sentinel, which promotes a replica when the server dies.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_continue_when_a_sentinel_promotes_a_replica() {
    let mut master = Redis::start().unwrap();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]).unwrap();
    until("the replica to follow", async || replica.execute("INFO replication").unwrap()[0].contains("link_status:up"))
        .await;
    let sentinel = Redis::start_sentinel(&master).unwrap();
    until("the sentinel to know the replica", async || {
        sentinel.execute("SENTINEL replicas jobs").unwrap().contains(&replica.port().to_string())
    })
    .await;
    let address = format!("redis+sentinel://127.0.0.1:{}/jobs", sentinel.port());
    let punctual = TestStore::postgres().dispatched_by(&address).connect().await;
    runs_jobs(&punctual).await;
    let worker = Worker::builder(punctual.clone()).handler("x", |_: Context| async { Ok(None) }).start().await.unwrap();
    let before = punctual.enqueue_all((0..100).map(|number| Draft::new("x", &number))).await.unwrap();
    master.kill().unwrap();
    let after = punctual.enqueue_all((0..100).map(|number| Draft::new("x", &number))).await.unwrap();
    for job in before.iter().chain(&after) {
        assert_eq!(punctual.wait(job.id, LONG).await.unwrap().status, Status::Succeeded);
    }
    until("the replica to take over", async || replica.execute("ROLE").unwrap()[0] == "master").await;
    worker.stop().await;
    runs_jobs(&punctual).await;
}
