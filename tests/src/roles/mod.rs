//! What processes do that tests start.
//!
//! | file | roles |
//! |---|---|
//! | `plain` | a worker, and a process that enqueues |
//! | `chaos` | a worker under load that survives failures |
//! | `limited` | workers of jobs that are never to run at the same time |
//! | `mixed` | all operations, as fast as possible |
//! | `supervised` | a supervisor, and its worker processes |
//! | `tls` | clients of Redis behind TLS |

pub mod chaos;
pub mod limited;
mod mixed;
mod plain;
pub mod supervised;
pub mod tls;

use std::path::Path;

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs jobs named `fast`, `node` and `held`.
    Worker {
        /// The duration of its leases.
        lease_ms: u64,
    },
    /// Enqueues from many tasks, and writes each acknowledged job to the ledger.
    Enqueuer,
    /// Runs jobs under load, and survives failures of its servers.
    ChaosWorker,
    /// Several workers of [`limited::Guarded`] jobs.
    LimitedWorkers,
    /// All operations on PostgreSQL for a minute; then it exits.
    Mixed,
    /// A worker process below a supervisor.
    SupervisedWorker,
    /// A supervisor with two worker processes.
    Supervisor,
    /// Runs jobs by a Redis server whose certificate it trusts; then it exits.
    TrustsRedis,
    /// Reports that it does not trust the certificate of a Redis server; then it exits.
    DoubtsRedis,
}

impl Role {
    /// The arguments of a process in this role.
    pub fn args(self, url: &str, ledger: &Path) -> Vec<String> {
        let mut args = vec![self.name().to_owned(), url.to_owned(), ledger.display().to_string()];
        if let Self::Worker { lease_ms } = self {
            args.push(lease_ms.to_string());
        }
        args
    }

    fn name(self) -> &'static str {
        match self {
            Self::Worker { .. } => "worker",
            Self::Enqueuer => "enqueuer",
            Self::ChaosWorker => "chaos-worker",
            Self::LimitedWorkers => "limited-workers",
            Self::Mixed => "mixed",
            Self::SupervisedWorker => supervised::WORKER,
            Self::Supervisor => "supervisor",
            Self::TrustsRedis => "trusts-redis",
            Self::DoubtsRedis => "doubts-redis",
        }
    }

    /// The role with this name, whose own arguments are `more`.
    pub fn parse(name: &str, mut more: impl Iterator<Item = String>) -> Option<Self> {
        let lease_ms = more.next().and_then(|lease| lease.parse().ok());
        let of_worker = lease_ms.map(|lease_ms| Self::Worker { lease_ms });
        let others = [
            Self::Enqueuer,
            Self::ChaosWorker,
            Self::LimitedWorkers,
            Self::Mixed,
            Self::SupervisedWorker,
            Self::Supervisor,
            Self::TrustsRedis,
            Self::DoubtsRedis,
        ];
        of_worker.into_iter().chain(others).find(|role| role.name() == name)
    }

    /// Does what the role demands, on this store and with this ledger.
    pub async fn run(self, url: &str, ledger: &Path) {
        match self {
            Self::Worker { lease_ms } => plain::work(url, ledger, lease_ms).await,
            Self::Enqueuer => plain::enqueue(url, ledger).await,
            Self::ChaosWorker => chaos::work(url, ledger).await,
            Self::LimitedWorkers => limited::work(url, ledger).await,
            Self::Mixed => mixed::run(url).await,
            Self::SupervisedWorker => supervised::work(url, ledger).await,
            Self::Supervisor => supervised::supervise(url, ledger).await,
            Self::TrustsRedis => tls::trust(url).await,
            Self::DoubtsRedis => tls::doubt(url).await,
        }
    }
}
