//! The page of a dead job gives the reason of its death.

use std::time::Duration;

use punctual_client::Draft;
use punctual_core::{ClaimRequest, JobError, Outcome, Retry, WorkerId, settle};

use crate::common::World;

#[tokio::test]
async fn a_page_says_why_its_job_is_dead() {
    let world = World::new().await;
    let (lost, failed) =
        (Outcome::Lost { evidence: None }, |retry| Outcome::Failed { fault: JobError::new("no"), retry });
    for (attempts, outcome, reason) in [
        (2, failed(Retry::Never), "after 1 attempt, failed permanently by its handler."),
        (1, failed(Retry::ByPolicy), "after 1 attempt, no retries left."),
        (1, lost, "after its worker was lost; a job with one attempt does not run again."),
    ] {
        let id = world.punctual.enqueue(Draft::new("x", &()).max_attempts(attempts)).await.unwrap().id;
        let (store, worker) = (world.punctual.store(), WorkerId::from_bits(7));
        let request = ClaimRequest::new(worker, 1, Duration::from_secs(30));
        let mut claim = store.claim(request).await.unwrap().claims.remove(0);
        claim.confirmed = true;
        let mut settlement = settle(&claim, outcome, 0.5);
        // As after the end of its worker, although its lease has not expired.
        settlement.only_if_expired = false;
        store.settle(vec![settlement]).await.unwrap();
        let page = world.get(&format!("/jobs/{id}")).await.good();
        assert!(page.as_str().unwrap().contains(reason), "{reason}: {page}");
    }
}
