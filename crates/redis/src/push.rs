//! New jobs: what Redis receives about them once they are stored.

use std::{collections::BTreeMap, sync::Arc};

use punctual_core::{
    NewJob, Status, StoreResult, Timestamp,
    dispatch::{HORIZON, Hint, Lane, Stored},
};
use tokio::time::Instant;

use crate::{
    activation,
    claim::Document,
    dispatch_lease::DispatchState,
    scripts::{CALL_MAX_JOBS, News},
    shared::Shared,
};

/// What is known before jobs are stored: if this process is suspended in between, they must not be taken for new.
pub(crate) struct BeforeStoring {
    state: Arc<DispatchState>,
    new_until: u64,
}

impl BeforeStoring {
    pub(crate) async fn read(store: &Shared) -> StoreResult<Self> {
        let state = store.dispatch_lease.state().await?;
        Ok(Self { new_until: state.new_until(), state })
    }
}

/// Sends jobs that have just been stored to Redis.
pub(crate) async fn push(
    store: &Arc<Shared>,
    jobs: Vec<NewJob>,
    stored: &[Stored],
    before: &BeforeStoring,
) -> StoreResult<()> {
    let (now, stored_at) = (store.primary.now(), Instant::now());
    let mut queues: BTreeMap<String, Vec<News>> = BTreeMap::new();
    let mut last: Option<Arc<Lane>> = None;
    for (job, stored) in jobs.into_iter().zip(stored) {
        if let Some(news) = news(job, stored, now, &mut last) {
            queues.entry(news.hint.lane.queue.clone()).or_default().push(news);
        }
    }
    for (name, mut news) in queues {
        if !before.state.caches() {
            // Workers read these jobs from the primary store: a backlog must not fill Redis.
            news.iter_mut().for_each(|news| news.document = None);
        }
        news.sort_by(|one, other| one.hint.lane.cmp(&other.hint.lane));
        if !push_to(store, before, &name, &news).await && store.reconciler.serves(&name) {
            let state = store.dispatch_lease.state_since(stored_at).await?;
            activation::open(store, &state, &name).await?;
            // The process that opened the queue may or may not have sent these jobs.
            let hints: Vec<Hint> = news.into_iter().map(|news| news.hint).collect();
            store.reconciler.put_again(&store.dispatch_lease, &hints).await?;
        }
    }
    Ok(())
}

/// Sends new jobs of one queue to Redis with their documents, if the queue is open and loaded there, so that no
/// other process can have sent them; false if it is not.
async fn push_to(store: &Shared, before: &BeforeStoring, name: &str, news: &[News]) -> bool {
    let Some(epoch) = before.state.settled_epoch(name) else { return false };
    for part in news.chunks(CALL_MAX_JOBS) {
        match store.queue(name, epoch).push(part, before.new_until).await {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                tracing::debug!(%error, "cannot pass new jobs to Redis; they will be found later");
                return true;
            }
        }
    }
    true
}

/// What to send to Redis about a stored job; nothing if the job has limits or starts later than the horizon.
fn news(job: NewJob, stored: &Stored, now: Timestamp, last: &mut Option<Arc<Lane>>) -> Option<News> {
    if stored.enqueued.existing || !job.parents.is_empty() || job.spec.options.concurrency_key.is_some() {
        return None;
    }
    let (status, run_at) = job.start(stored.at);
    if run_at > now.after(HORIZON) {
        return None;
    }
    let spec = &job.spec;
    let same = |lane: &&Arc<Lane>| (&lane.queue, &lane.name, lane.priority) == (&spec.queue, &spec.name, spec.priority);
    let lane = last.as_ref().filter(same).cloned().unwrap_or_else(|| {
        let (queue, name) = (spec.queue.clone(), spec.name.clone());
        Arc::new(Lane { queue, name, priority: spec.priority })
    });
    *last = Some(Arc::clone(&lane));
    // A job that is dropped at restart may no longer exist when it is claimed: no document for it.
    let document = if status == Status::Queued && !spec.ephemeral { Document::write(stored.at, spec) } else { None };
    Some(News { hint: Hint { lane, run_at, job: job.id }, document })
}
