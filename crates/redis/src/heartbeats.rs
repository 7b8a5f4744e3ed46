//! Heartbeats of workers. A worker whose heartbeats have stopped, both in Redis and in the primary store, is dead: its
//! leases are ended before they expire.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use punctual_core::{StoreResult, Timestamp, WorkerId, dispatch::PrimaryStore};
use redis::RedisResult;

use crate::{keys::Namespace, repairs::Repairs, server::Server};

/// How long a heartbeat counts.
pub(crate) const ALIVE_FOR: Duration = Duration::from_secs(30);
/// Interval between searches for dead workers.
const CHECK_PERIOD: Duration = Duration::from_secs(5);

/// Heartbeats of workers, stored in Redis.
pub(crate) struct Heartbeats {
    primary: Arc<dyn PrimaryStore>,
    server: Server,
    namespace: Namespace,
    checked_at: Mutex<Timestamp>,
    /// Dead workers whose leases have been ended.
    buried: Mutex<HashSet<WorkerId>>,
}

impl Heartbeats {
    pub(crate) fn new(primary: Arc<dyn PrimaryStore>, server: Server, namespace: Namespace) -> Self {
        Self { primary, server, namespace, checked_at: Mutex::new(Timestamp::MIN), buried: Mutex::default() }
    }

    /// Records the heartbeat of a worker.
    pub(crate) async fn heartbeat(&self, worker: WorkerId) {
        let key = self.namespace.worker(worker);
        let result: RedisResult<()> =
            self.server.call(redis::cmd("SET").arg(key).arg(1).arg("EX").arg(ALIVE_FOR.as_secs())).await;
        if let Err(error) = result {
            tracing::debug!(%error, "cannot record a heartbeat in Redis");
        }
    }

    /// Removes the heartbeat of a worker that has deregistered.
    pub(crate) async fn stop(&self, worker: WorkerId) {
        let _: RedisResult<()> = self.server.call(redis::cmd("DEL").arg(self.namespace.worker(worker))).await;
    }

    /// Whether the last search was long enough ago; if so, marks a new one.
    fn is_time(&self, now: Timestamp) -> bool {
        let mut checked_at = self.checked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let recently = *checked_at <= now && now.since(*checked_at) < CHECK_PERIOD;
        if !recently {
            *checked_at = now;
        }
        !recently
    }

    /// Ends the leases of workers that have died since the last search.
    pub(crate) async fn end_dead_leases(&self, repairs: &Repairs) -> StoreResult<()> {
        let now = self.primary.now();
        if !self.is_time(now) {
            return Ok(());
        }
        let workers = self.primary.workers().await?;
        let silent =
            workers.iter().filter(|worker| now.since(worker.seen_at) > ALIVE_FOR).map(|worker| worker.heartbeat.id);
        let silent: HashSet<WorkerId> = silent.collect();
        let unburied: Vec<WorkerId> = {
            let mut buried = self.buried.lock().unwrap_or_else(PoisonError::into_inner);
            buried.retain(|worker| silent.contains(worker));
            silent.difference(&buried).copied().collect()
        };
        for worker in unburied {
            let heartbeats: RedisResult<bool> =
                self.server.call(redis::cmd("EXISTS").arg(self.namespace.worker(worker))).await;
            if !matches!(heartbeats, Ok(false)) {
                continue;
            }
            let jobs = self.primary.end_leases(worker).await?;
            self.buried.lock().unwrap_or_else(PoisonError::into_inner).insert(worker);
            if jobs > 0 {
                tracing::warn!(%worker, jobs, "no heartbeat from a worker; other workers may take its jobs");
                repairs.count("leases of dead workers ended", jobs).await;
            }
        }
        Ok(())
    }
}
