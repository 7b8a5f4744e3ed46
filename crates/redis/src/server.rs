//! Connections to Redis: a single server, a server monitored by sentinels, or a cluster.

use std::{collections::HashMap, fmt, str::FromStr, sync::Arc, time::Duration};

use punctual_core::{StoreError, StoreResult, url_parameter};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError,
    RedisFuture, RedisResult, ScriptInvocation, Value,
    aio::{ConnectionLike, MultiplexedConnection, PubSub},
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
    cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo},
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
    sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType},
};
use tokio::{sync::Mutex, time};

/// Timeouts for establishing a TCP connection, and for an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for a complete connection: sentinels are queried first, and a login follows.
const SETUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The parameters of a URL.
const PARAMETERS: [&str; 1] = ["protocol"];
/// Idle time after which a connection is probed.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// An address of Redis: `redis://host:6379`, `rediss://…` with TLS, `redis+cluster://one:6379,two:6379`,
/// `redis+sentinel://one:26379,two:26379/name`; each with an optional `user:password@` before the hosts.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    kind: Kind,
    /// One address per host, in the form that the driver parses.
    hosts: Vec<String>,
    /// The address without secrets.
    shown: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Single,
    Cluster,
    /// The master of this name, found through sentinels.
    Sentinel(String),
}

impl Address {
    /// Whether this is the address of a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.kind == Kind::Cluster
    }

    /// Whether this is the address of a single server.
    pub(crate) fn is_single(&self) -> bool {
        self.kind == Kind::Single
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.shown)
    }
}

/// Refuses parameters that the driver would ignore.
fn check_parameters(url: &str) -> Result<(), String> {
    let query = url.split_once('?').map_or("", |(_, query)| query.split('#').next().unwrap_or_default());
    for setting in query.split('&').filter(|setting| !setting.is_empty()) {
        let name = setting.split('=').next().unwrap_or(setting);
        if !PARAMETERS.contains(&name) {
            return Err(url_parameter::unknown(name, &PARAMETERS));
        }
    }
    Ok(())
}

impl FromStr for Address {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let bad = |reason: String| StoreError::InvalidUrl { store: "redis".to_owned(), reason };
        check_parameters(text).map_err(bad)?;
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(bad("expected redis://, rediss://, redis+cluster:// or redis+sentinel://".into()));
        };
        let (scheme, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !["redis", "rediss", "valkey", "valkeys"].contains(&scheme) {
            return Err(bad(format!(
                "unsupported scheme {scheme}://: expected a Redis URL such as redis://127.0.0.1:6379"
            )));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
        let login = if login.is_empty() { String::new() } else { format!("{login}@") };
        let (kind, path) = match kind {
            "" => (Kind::Single, path),
            "cluster" => (Kind::Cluster, path),
            "sentinel" => {
                let (name, database) = path.split_once('/').unwrap_or((path, ""));
                if name.is_empty() {
                    return Err(bad("redis+sentinel:// needs the name of the master: …/mymaster".into()));
                }
                (Kind::Sentinel(name.to_owned()), database)
            }
            other => return Err(bad(format!("`+{other}` is unknown: +cluster or +sentinel"))),
        };
        if kind == Kind::Single && hosts.contains(',') {
            return Err(bad("several hosts need redis+cluster:// or redis+sentinel://".into()));
        }
        let shown = match &kind {
            Kind::Single => format!("{scheme}://{hosts}"),
            Kind::Cluster => format!("{scheme}+cluster://{hosts}"),
            Kind::Sentinel(name) => format!("{scheme}+sentinel://{hosts}/{name}"),
        };
        let hosts: Vec<String> = hosts.split(',').map(|host| format!("{scheme}://{login}{host}/{path}")).collect();
        for host in &hosts {
            // The driver's message may contain the password: only its category is reported.
            Client::open(host.as_str()).map_err(|error| bad(format!("{shown}: {}", error.category())))?;
        }
        Ok(Self { kind, hosts, shown })
    }
}

/// A Redis server or cluster. Reconnects on the next use after a connection was lost.
#[derive(Clone)]
pub(crate) struct Server {
    address: Arc<Address>,
    connection: Arc<Mutex<Option<Connection>>>,
}

#[derive(Clone)]
enum Connection {
    Node(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Node(connection) => connection.req_packed_command(cmd),
            Self::Cluster(connection) => connection.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Node(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Node(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}

impl Server {
    pub(crate) fn new(address: Address) -> Self {
        Self { address: Arc::new(address), connection: Arc::default() }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Runs a script.
    pub(crate) async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> RedisResult<T> {
        let mut connection = self.connection().await?;
        let answer = script.invoke_async(&mut connection).await;
        self.checked(answer).await
    }

    /// Executes one command.
    pub(crate) async fn call<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let mut connection = self.connection().await?;
        let answer = command.query_async(&mut connection).await;
        self.checked(answer).await
    }

    /// Executes one command on each master, and returns all answers.
    pub(crate) async fn call_all<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<Vec<T>> {
        let answers = match self.connection().await? {
            Connection::Node(mut node) => command.query_async(&mut node).await.map(|one| vec![one]),
            Connection::Cluster(mut cluster) => {
                let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let by_node = cluster.route_command(command.clone(), all).await;
                by_node.and_then(|answer| Ok(HashMap::<String, T>::from_redis_value(answer)?.into_values().collect()))
            }
        };
        self.checked(answers).await
    }

    /// Returns the keys of all masters that match a pattern.
    pub(crate) async fn scan(&self, pattern: &str) -> RedisResult<Vec<String>> {
        match self.connection().await? {
            Connection::Node(mut node) => scan(pattern, async |command| command.query_async(&mut node).await).await,
            Connection::Cluster(mut cluster) => {
                let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let answered = cluster.route_command(redis::cmd("DBSIZE"), all).await?;
                let mut keys = Vec::new();
                for master in HashMap::<String, u64>::from_redis_value(answered)?.into_keys() {
                    let Some((host, port)) = master.rsplit_once(':') else { continue };
                    let (host, port) = (host.to_owned(), port.parse().unwrap_or_default());
                    let node = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host, port });
                    let call = async |command| cluster.route_command(command, node.clone()).await;
                    keys.extend(scan(pattern, call).await?);
                }
                Ok(keys)
            }
        }
    }

    async fn connection(&self) -> RedisResult<Connection> {
        let mut known = self.connection.lock().await;
        match &*known {
            Some(connection) => Ok(connection.clone()),
            None => Ok(known.insert(in_time(self.connect()).await?).clone()),
        }
    }

    /// Drops the connection after an error that makes it unusable.
    async fn checked<T>(&self, answer: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &answer
            && (error.is_unrecoverable_error()
                || error.is_io_error()
                || error.kind() == ErrorKind::Server(redis::ServerErrorKind::ReadOnly))
        {
            *self.connection.lock().await = None;
        }
        answer
    }

    async fn connect(&self) -> RedisResult<Connection> {
        // If a build contains several TLS providers, rustls chooses none. The embedding program may have installed one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let hosts = self.address.hosts.iter().map(String::as_str);
        if self.address.kind == Kind::Cluster {
            let cluster: ClusterClient = ClusterClientBuilder::new(hosts)
                .tcp_settings(tcp_settings())
                .connection_timeout(CONNECT_TIMEOUT)
                .response_timeout(ANSWER_TIMEOUT)
                .build()?;
            return cluster.get_async_connection().await.map(Connection::Cluster);
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT));
        self.node().await?.get_multiplexed_async_connection_with_config(&config).await.map(Connection::Node)
    }

    /// The server itself, or one node of the cluster.
    async fn node(&self) -> RedisResult<Client> {
        let hosts = self.address.hosts.clone();
        match &self.address.kind {
            Kind::Sentinel(name) => {
                let info = SentinelNodeConnectionInfo::default().set_tcp_settings(tcp_settings());
                let mut sentinel = SentinelClient::build(hosts, name.clone(), Some(info), SentinelServerType::Master)?;
                sentinel.async_get_client().await
            }
            Kind::Single | Kind::Cluster => {
                let host = fastrand::choice(&hosts).map_or("", String::as_str);
                Client::open(host.into_connection_info()?.set_tcp_settings(tcp_settings()))
            }
        }
    }

    /// A connection that subscribes to a channel. A cluster publishes a message of one node on all nodes.
    pub(crate) async fn listen(&self, channel: &str) -> RedisResult<PubSub> {
        in_time(async {
            let mut listener = self.node().await?.get_async_pubsub().await?;
            listener.subscribe(channel).await?;
            Ok(listener)
        })
        .await
    }
}

/// Returns the keys of one server that match a pattern.
async fn scan(pattern: &str, mut call: impl AsyncFnMut(Cmd) -> RedisResult<Value>) -> RedisResult<Vec<String>> {
    let (mut keys, mut cursor) = (Vec::new(), 0u64);
    loop {
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1_000);
        let (next, found) = <(u64, Vec<String>)>::from_redis_value(call(command).await?)?;
        keys.extend(found);
        cursor = next;
        if cursor == 0 {
            return Ok(keys);
        }
    }
}

fn tcp_settings() -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    let settings = settings.set_keepalive(TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE));
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(2 * KEEPALIVE);
    settings
}

/// Limits the time of an operation for which the driver has no timeout.
pub(crate) async fn in_time<T>(work: impl Future<Output = RedisResult<T>> + Send) -> RedisResult<T> {
    let silent = |_| RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
    // Boxed: the driver's futures are large.
    time::timeout(SETUP_TIMEOUT, Box::pin(work)).await.map_err(silent)?
}

/// Converts an error of Redis to a store error.
pub(crate) fn store_error(address: &Address, error: &RedisError) -> StoreError {
    StoreError::Unreachable { store: address.to_string(), reason: error.to_string() }
}

/// A section of `INFO` of the server, or of one node of the cluster, as fields by name.
pub(crate) async fn info(server: &Server, chapter: &str) -> RedisResult<HashMap<String, String>> {
    let texts: Vec<String> = server.call_all(redis::cmd("INFO").arg(chapter)).await?;
    let pairs = texts.iter().take(1).flat_map(|text| text.lines()).filter_map(|line| line.trim().split_once(':'));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The version of the server.
pub(crate) async fn version(server: &Server) -> StoreResult<String> {
    let info = info(server, "server").await.map_err(|error| store_error(server.address(), &error))?;
    Ok(info.get("valkey_version").or(info.get("redis_version")).cloned().unwrap_or_else(|| "unknown".to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_unknown_parameter_is_refused_without_the_password() {
        for (url, problem) in [
            ("redis://:secret@h:6379?protocl=resp3", "unknown parameter `protocl`: did you mean `protocol`?"),
            ("redis://:secret@h/0?db=2", "unknown parameter `db`: expected protocol"),
            ("redis://:sec?ret@h/0", "invalid parameter: expected NAME=VALUE"),
        ] {
            let error = url.parse::<Address>().unwrap_err();
            assert!(matches!(error, StoreError::InvalidUrl { .. }), "{error}");
            let error = error.to_string();
            assert!(error.contains(problem) && !error.contains("sec"), "{url}: {error}");
        }
        assert!("redis://h:6379/0?protocol=resp3".parse::<Address>().is_ok());
    }
}
