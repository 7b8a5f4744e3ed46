//! Stores for a benchmark or a verification, created for one run and removed afterwards.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use punctual::{
    ManualClock, Punctual,
    postgres::{
        self,
        sqlx::{self, Connection, PgConnection},
    },
    redis::DispatchStore,
};
use tempfile::TempDir;

use crate::{sql_server::SqlServer, usage};

/// Creates the stores of scenarios on one server.
#[derive(Debug)]
pub struct StoreFactory {
    /// The address of the store.
    pub url: String,
    /// The database engine.
    pub engine: String,
    /// The version of the engine.
    pub engine_version: String,
    /// The relevant settings.
    pub settings: String,
    ground: Ground,
}

/// What has to be removed at the end.
#[derive(Debug)]
enum Ground {
    Folder(TempDir),
    /// A database, and the name prefix of the schemas created in it.
    Database {
        url: String,
        prefix: String,
        /// The server's main process, if it runs on this machine.
        server: Option<u32>,
        /// The address of Redis in front of it, if any.
        dispatcher: Option<String>,
    },
    /// A server, and the databases created on it.
    Server {
        server: SqlServer,
        url: String,
        prefix: String,
        made: Mutex<Vec<String>>,
    },
}

impl StoreFactory {
    /// Creates stores of the engine of `store`, in schemas or databases whose names begin with `punctual_{purpose}_`.
    /// The data of `store` itself is never touched.
    pub async fn new(store: &str, purpose: &str) -> Result<Self> {
        let kind = store.split(':').next().unwrap_or_default();
        let (ground, settings) = match kind {
            "sqlite" => (
                folder(store)?,
                if store.contains("normal") { "synchronous=normal, wal" } else { "synchronous=full, wal" }.to_owned(),
            ),
            "postgres" | "postgresql" => database(store, prefix(purpose)).await?,
            "sqlserver" | "mssql" => server(store, prefix(purpose)).await?,
            _ => bail!("unsupported store URL scheme `{kind}`: expected sqlite, postgres or sqlserver"),
        };
        let url = ground.fresh_url(store, purpose).await?;
        let info = match Punctual::connect(&url).await {
            Ok(punctual) => punctual.store().info(),
            Err(error) => {
                ground.clear().await?;
                return Err(error.into());
            }
        };
        Ok(Self { url, engine: info.engine.to_owned(), engine_version: info.version, settings, ground })
    }

    /// Connects to a new, empty store.
    pub async fn fresh(&self, name: &str) -> Result<Punctual> {
        Ok(Punctual::connect(&self.fresh_url(name).await?).await?)
    }

    /// The same, with a given clock.
    pub(crate) async fn fresh_at(&self, name: &str, clock: ManualClock) -> Result<Punctual> {
        Ok(Punctual::connect_with_clock(&primary(&self.fresh_url(name).await?), clock).await?)
    }

    /// A connection to the PostgreSQL server itself, if there is one.
    pub(crate) async fn server(&self) -> Result<Option<PgConnection>> {
        let Ground::Database { url, .. } = &self.ground else { return Ok(None) };
        let options: postgres::Options = primary(url).parse()?;
        Ok(Some(PgConnection::connect_with(&options.connect).await?))
    }

    /// The address of a new, empty store.
    pub async fn fresh_url(&self, name: &str) -> Result<String> {
        self.ground.fresh_url(&self.url, name).await
    }

    /// The processor time that the store's server has used, if it has a server that runs on this machine.
    pub(crate) fn server_cpu_s(&self) -> Option<f64> {
        match &self.ground {
            Ground::Database { server, .. } => server.map(usage::server_cpu_s),
            Ground::Folder(_) | Ground::Server { .. } => None,
        }
    }

    /// The processor time that Redis in front of it has used, if it is a single server.
    pub(crate) async fn dispatcher_cpu_s(&self) -> Option<f64> {
        Some(self.dispatcher_info("used_cpu_sys:").await? + self.dispatcher_info("used_cpu_user:").await?)
    }

    /// The memory that Redis uses, in MiB.
    pub(crate) async fn dispatcher_memory_mib(&self) -> Option<f64> {
        Some(self.dispatcher_info("used_memory:").await? / 1024.0 / 1024.0)
    }

    async fn dispatcher_info(&self, field: &str) -> Option<f64> {
        let info: String = self.query_dispatcher("INFO").await.ok()?;
        info.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
    }

    /// Removes all data from Redis.
    pub(crate) async fn empty_dispatcher(&self) -> Result<()> {
        self.query_dispatcher("FLUSHALL").await
    }

    async fn query_dispatcher<T: redis::FromRedisValue>(&self, command: &str) -> Result<T> {
        let Ground::Database { dispatcher: Some(dispatcher), .. } = &self.ground else { bail!("no Redis given") };
        let mut connection = redis::Client::open(dispatcher.as_str())?.get_multiplexed_async_connection().await?;
        Ok(redis::cmd(command).query_async(&mut connection).await?)
    }

    /// The schema of the store `name`, if the engine has schemas.
    pub(crate) fn schema(&self, name: &str) -> Option<String> {
        match &self.ground {
            Ground::Database { prefix, .. } => Some(own(prefix, name)),
            Ground::Folder(_) | Ground::Server { .. } => None,
        }
    }

    /// Removes the store `name`, and its keys in Redis.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let url = self.ground.url(&self.url, name);
        match &self.ground {
            Ground::Folder(folder) => {
                for end in ["", "-wal", "-shm"] {
                    let _ = std::fs::remove_file(folder.path().join(format!("{name}.db{end}")));
                }
            }
            Ground::Database { prefix, .. } => {
                if primary(&url) != url {
                    forget_in_redis(&url).await?;
                }
                let options: postgres::Options = primary(&url).parse()?;
                postgres::drop_schemas(&options, &own(prefix, name)).await.context("cannot drop a schema")?;
            }
            Ground::Server { server, prefix, made, .. } => {
                let database = own(prefix, name);
                server.remove(&database).await?;
                made.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != database);
            }
        }
        Ok(())
    }

    /// Removes everything that was created. A folder is removed when it is dropped.
    pub async fn clear(&self) -> Result<()> {
        self.ground.clear().await
    }
}

impl Ground {
    /// The address of a new, empty store; its database is created if the store does not do that itself.
    async fn fresh_url(&self, like: &str, name: &str) -> Result<String> {
        if let Self::Server { server, prefix, made, .. } = self {
            let database = own(prefix, name);
            server.create(&database).await?;
            made.lock().unwrap_or_else(PoisonError::into_inner).push(database);
        }
        Ok(self.url(like, name))
    }

    /// The address of the store `name`, with the settings of `like`.
    fn url(&self, like: &str, name: &str) -> String {
        let settings: Vec<&str> = like.split_once('?').map_or(Vec::new(), |(_, query)| query.split('&').collect());
        let settings: Vec<&str> = settings.into_iter().filter(|setting| !setting.starts_with("schema=")).collect();
        match self {
            Self::Folder(folder) => {
                let query = if settings.is_empty() { String::new() } else { format!("?{}", settings.join("&")) };
                format!("sqlite:{}{query}", folder.path().join(format!("{name}.db")).display())
            }
            Self::Database { url, prefix, .. } => {
                let address = url.split('?').next().unwrap_or_default();
                let schema = format!("schema={}", own(prefix, name));
                let settings: Vec<&str> = settings.into_iter().chain([schema.as_str()]).collect();
                format!("{address}?{}", settings.join("&"))
            }
            Self::Server { url, prefix, .. } => {
                let address = url.split('?').next().unwrap_or_default();
                let (scheme, server) = address.split_once("://").unwrap_or_default();
                let server = server.split('/').next().unwrap_or_default();
                format!("{scheme}://{server}/{}?{}", own(prefix, name), settings.join("&"))
            }
        }
    }

    async fn clear(&self) -> Result<()> {
        match self {
            Self::Folder(_) => Ok(()),
            Self::Database { url, prefix, .. } => {
                let options: postgres::Options = primary(url).parse()?;
                postgres::drop_schemas(&options, prefix).await.context("cannot drop the schemas that were made")
            }
            Self::Server { server, made, .. } => {
                let made = std::mem::take(&mut *made.lock().unwrap_or_else(PoisonError::into_inner));
                for name in made {
                    server.remove(&name).await?;
                }
                Ok(())
            }
        }
    }
}

/// Removes the keys of a store from Redis.
async fn forget_in_redis(url: &str) -> Result<()> {
    let punctual = Punctual::connect(url).await?;
    let store: &dyn std::any::Any = punctual.engine();
    match store.downcast_ref::<DispatchStore>() {
        Some(store) => Ok(store.remove_keys().await?),
        None => Ok(()),
    }
}

/// The name of a schema or a database of the benchmark.
fn own(prefix: &str, name: &str) -> String {
    format!("{prefix}{}", name.replace('-', "_"))
}

/// The address of the database, without that of the dispatcher in front of it.
fn primary(url: &str) -> String {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let of_redis = |setting: &&str| ["dispatch=", "locks=", "lock_jobs="].iter().any(|name| setting.starts_with(name));
    let settings: Vec<&str> = query.split('&').filter(|setting| !of_redis(setting)).collect();
    format!("{address}?{}", settings.join("&"))
}

/// A folder next to the given file, so that the benchmark measures the disk that the user means.
fn folder(store: &str) -> Result<Ground> {
    let path = store.trim_start_matches("sqlite:").trim_start_matches("//");
    let path = std::path::Path::new(path.split('?').next().unwrap_or_default());
    let beside = path.parent().filter(|folder| folder.is_dir() && path.exists());
    Ok(Ground::Folder(beside.map_or_else(tempfile::tempdir, tempfile::tempdir_in)?))
}

/// Schemas of the benchmark in the given database.
async fn database(store: &str, prefix: String) -> Result<(Ground, String)> {
    let options: postgres::Options = primary(store).parse()?;
    let settings = postgres::server_settings(&options).await.context("cannot reach the database")?;
    let mut connection = PgConnection::connect_with(&options.connect).await?;
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut connection).await?;
    let local = ["localhost", "127.0.0.1", "::1"].contains(&options.connect.get_host());
    let server = u32::try_from(pid).ok().filter(|_| local).and_then(usage::parent_of);
    let dispatcher = store.split(['?', '&']).find_map(|setting| setting.strip_prefix("dispatch=redis://"));
    let dispatcher = dispatcher.map(|address| format!("redis://{address}"));
    Ok((Ground::Database { url: store.to_owned(), prefix, server, dispatcher }, settings))
}

/// Databases of the benchmark on the given server.
async fn server(store: &str, prefix: String) -> Result<(Ground, String)> {
    let (server, settings) = SqlServer::connect(store).await?;
    let ground = Ground::Server { server, url: store.to_owned(), prefix, made: Mutex::default() };
    Ok((ground, settings))
}

fn prefix(purpose: &str) -> String {
    format!("punctual_{purpose}_{:08x}_", fastrand::u32(..))
}
