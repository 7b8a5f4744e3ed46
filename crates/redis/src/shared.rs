//! What the parts of the store share.

use std::sync::{Arc, atomic::AtomicU64};

use punctual_core::{
    StoreResult,
    dispatch::{PrimaryStore, Sight},
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

/// The primary store, Redis, and what this process knows of both.
pub(crate) struct Shared {
    pub(crate) primary: Arc<dyn PrimaryStore>,
    pub(crate) server: Server,
    pub(crate) namespace: Namespace,
    pub(crate) repairs: Repairs,
    pub(crate) locks: Locks,
    /// Where jobs are locked that begin before the primary store knows, if they are.
    pub(crate) job_locks: Option<Locks>,
    pub(crate) hearts: Heartbeats,
    pub(crate) version: String,
    pub(crate) keeper: Arc<DispatchLease>,
    pub(crate) loader: Reconciler,
    pub(crate) recorder: Arc<WriteBehind>,
    /// There may be something to claim.
    pub(crate) work: Wakes,
    /// Claims are to wait no longer.
    pub(crate) hurry: Wakes,
    /// Tells the claims of a worker from each other.
    pub(crate) claims: AtomicU64,
    /// End with the store.
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
        let dispatching = primary.dispatching(Sight::Unknown).await?;
        let namespace = Namespace::of(&dispatching.store_id);
        let version = server::version(&server).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "Redis cannot be reached; jobs are handed out without it until it can");
            "unknown".to_owned()
        });
        let recorder = WriteBehind::new(Arc::clone(&primary), server.clone(), namespace.clone(), job_locks.clone());
        let recorder = Arc::new(recorder);
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&recorder).run());
        let keeper =
            DispatchLease::new(Arc::clone(&primary), server.clone(), namespace.clone(), dispatching.server_run);
        let keeper = Arc::new(keeper);
        tasks.spawn(Arc::clone(&keeper).run());
        Ok(Self {
            keeper,
            loader: Reconciler::new(Arc::clone(&primary), server.clone(), namespace.clone()),
            recorder,
            work: Wakes::listen_to(server.clone(), namespace.channel()),
            hurry: Wakes::of_process(),
            claims: AtomicU64::new(0),
            repairs: Repairs::new(server.clone(), namespace.clone()),
            hearts: Heartbeats::new(Arc::clone(&primary), server.clone(), namespace.clone()),
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
