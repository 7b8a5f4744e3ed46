//! Counters of repairs.

use redis::RedisResult;

use crate::{keys::Namespace, server::Server};

/// Counts repairs in Redis: they concern its data, and are lost with it.
#[derive(Clone)]
pub(crate) struct Repairs {
    server: Server,
    namespace: Namespace,
}

impl Repairs {
    pub(crate) const fn new(server: Server, namespace: Namespace) -> Self {
        Self { server, namespace }
    }

    /// Adds `number` to the counter of a kind.
    pub(crate) async fn count(&self, kind: &str, number: usize) {
        let key = self.namespace.repairs();
        let counted: RedisResult<u64> = self.server.call(redis::cmd("HINCRBY").arg(key).arg(kind).arg(number)).await;
        if let Err(error) = counted {
            tracing::debug!(%error, kind, number, "cannot count a repair");
        }
    }

    /// All counters, sorted by kind.
    pub(crate) async fn all(&self) -> RedisResult<Vec<(String, u64)>> {
        let mut all: Vec<(String, u64)> = self.server.call(redis::cmd("HGETALL").arg(self.namespace.repairs())).await?;
        all.sort();
        Ok(all)
    }
}
