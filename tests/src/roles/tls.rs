//! Clients of Redis behind TLS. The trusted certificates are those of the system, or of the file that SSL_CERT_FILE
//! names, and are the same in the whole process.

use std::time::Duration;

use punctual::{Context, Draft, Punctual, Status, Worker};

use crate::observe::until;

const LONG: Duration = Duration::from_secs(60);

/// Runs jobs until Redis dispatches those of the queue: the first job makes it load the queue.
pub async fn runs_jobs(punctual: &Punctual) {
    let worker = Worker::builder(punctual.clone()).handler("x", |_: Context| async { Ok(None) }).start().await.unwrap();
    until("Redis to hand out the queue's jobs", async || {
        let id = punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
        assert_eq!(punctual.wait(id, LONG).await.unwrap().status, Status::Succeeded);
        redis_is_well(punctual).await.contains("default (")
    })
    .await;
    worker.stop().await;
}

/// The diagnostic of the queues in Redis; empty if Redis cannot be reached.
async fn redis_is_well(punctual: &Punctual) -> String {
    let diagnostics = punctual.store().check().await.unwrap();
    diagnostics.into_iter().find(|one| one.check == "redis queues").map(|one| one.message).unwrap_or_default()
}

/// The diagnostic of Redis itself.
pub async fn redis_diagnostic(punctual: &Punctual) -> (bool, String) {
    let diagnostics = punctual.store().check().await.unwrap();
    diagnostics.into_iter().find(|one| one.check == "redis").map(|one| (one.ok, one.message)).unwrap()
}

pub(super) async fn trust(url: &str) {
    runs_jobs(&Punctual::connect(url).await.unwrap()).await;
}

pub(super) async fn doubt(url: &str) {
    let (ok, message) = redis_diagnostic(&Punctual::connect(url).await.unwrap()).await;
    assert!(!ok && message.contains("certificate"), "{message}");
}
