//! State that the parts of the store share.

use std::sync::{Arc, atomic::AtomicU64};

use punctual_core::{
    StoreResult,
    dispatch::{PrimaryStore, Reachability},
};
use tokio::task::JoinSet;

use crate::{
    dispatch_lease::DispatchLease,
    heartbeats::Heartbeats,
    keys::Namespace,
    locks::Locks,
    options::Options,
    reconciler::Reconciler,
    repairs::Repairs,
    scripts::Queue,
    server::{self, Server},
    wake::Wakes,
    write_behind::WriteBehind,
};

/// The primary store, Redis, and the state of this process.
pub(crate) struct Shared {
    pub(crate) primary: Arc<dyn PrimaryStore>,
    pub(crate) server: Server,
    pub(crate) namespace: Namespace,
    pub(crate) repairs: Repairs,
    pub(crate) locks: Locks,
    /// The servers on which jobs are locked that start before the primary store knows, if `lock_jobs` is set.
    pub(crate) job_locks: Option<Locks>,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) version: String,
    pub(crate) dispatch_lease: Arc<DispatchLease>,
    pub(crate) reconciler: Reconciler,
    pub(crate) write_behind: Arc<WriteBehind>,
    /// Notified when there may be jobs to claim.
    pub(crate) work: Wakes,
    /// Notified when claims are to return without waiting any longer.
    pub(crate) claim_wakeups: Wakes,
    /// Numbers the claims, so that each has its own token.
    pub(crate) claims: AtomicU64,
    /// Aborted with the store.
    _tasks: JoinSet<()>,
}

impl Shared {
    pub(crate) async fn open(primary: Arc<dyn PrimaryStore>, options: Options) -> StoreResult<Self> {
        options.check()?;
        let Options { address, locks, lock_jobs } = options;
        let server = Server::new(address);
        let job_locks = lock_jobs.then(|| locks.iter().cloned().map(Server::new).collect()).map(Locks::on);
        let locks = match job_locks.clone() {
            Some(locks) => locks,
            None if locks.is_empty() => Locks::on(vec![server.clone()]),
            None => Locks::on(locks.into_iter().map(Server::new).collect()),
        };
        let dispatching = primary.dispatching(Reachability::Unknown).await?;
        let namespace = Namespace::of(&dispatching.store_id);
        let version = server::version(&server).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "Redis cannot be reached; jobs are handed out without it until it can");
            "unknown".to_owned()
        });
        let write_behind = WriteBehind::new(Arc::clone(&primary), server.clone(), namespace.clone(), job_locks.clone());
        let write_behind = Arc::new(write_behind);
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&write_behind).run());
        let dispatch_lease =
            DispatchLease::new(Arc::clone(&primary), server.clone(), namespace.clone(), dispatching.server_run);
        let dispatch_lease = Arc::new(dispatch_lease);
        tasks.spawn(Arc::clone(&dispatch_lease).run());
        Ok(Self {
            dispatch_lease,
            reconciler: Reconciler::new(Arc::clone(&primary), server.clone(), namespace.clone()),
            write_behind,
            work: Wakes::listen_to(server.clone(), namespace.channel()),
            claim_wakeups: Wakes::of_process(),
            claims: AtomicU64::new(0),
            repairs: Repairs::new(server.clone(), namespace.clone()),
            heartbeats: Heartbeats::new(Arc::clone(&primary), server.clone(), namespace.clone()),
            locks,
            job_locks,
            version,
            primary,
            server,
            namespace,
            _tasks: tasks,
        })
    }

    pub(crate) fn queue<'a>(&'a self, name: &'a str, epoch: u64) -> Queue<'a> {
        Queue { server: &self.server, namespace: &self.namespace, name, epoch }
    }
}
