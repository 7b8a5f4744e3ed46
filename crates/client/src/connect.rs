//! From an address to a store. Of the library, only this file names engines.

use std::sync::Arc;

use punctual_core::{Error, ManualClock, Store, StoreError};

use crate::Punctual;

/// The schemes of the engines that this build has.
const SCHEMES: &[&str] = &[
    #[cfg(feature = "sqlite")]
    "sqlite",
    #[cfg(feature = "postgres")]
    "postgres",
    #[cfg(feature = "sqlserver")]
    "sqlserver",
];

impl Punctual {
    /// Opens the store at `url`, such as `sqlite:punctual.db`, `postgres://user@host/database` or
    /// `sqlserver://user:password@host/database`, and brings its schema up to date.
    ///
    /// Redis hands out the jobs of a PostgreSQL database if the address says where it is:
    /// `postgres://…?dispatch=redis://host:6379`. With `locks=redis://a,redis://b,redis://c`, most of these independent
    /// servers have to agree on a lock; with `lock_jobs=true`, on a job's start, too.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Ok(Self::new(open(url, None).await?))
    }

    /// The same for tests: the store goes by `clock`, which only the test moves, instead of the server's or the
    /// machine's clock.
    pub async fn connect_with_clock(url: &str, clock: ManualClock) -> Result<Self, Error> {
        Ok(Self::new(open(url, Some(clock)).await?))
    }
}

async fn open(url: &str, clock: Option<ManualClock>) -> Result<Arc<dyn Store>, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") if parted(url).1.address.is_some() => {
            let reason =
                "a file of SQLite needs no dispatch; Redis hands out the jobs of a postgres:// store".to_owned();
            Err(StoreError::Unreachable { store: "sqlite".to_owned(), reason })
        }
        #[cfg(feature = "sqlite")]
        Some("sqlite") => {
            let mut options: punctual_sql::sqlite::Options = url.parse()?;
            if let Some(clock) = clock {
                options = options.clock(clock);
            }
            Ok(Arc::new(punctual_sql::sqlite::SqliteStore::open(options).await?))
        }
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => {
            let (url, dispatch) = parted(url);
            let mut options: punctual_sql::postgres::Options = url.parse()?;
            if let Some(clock) = clock {
                options = options.clock(clock);
            }
            match &dispatch.address {
                None => Ok(Arc::new(punctual_sql::postgres::PostgresStore::open(options).await?)),
                Some(address) => dispatched(options, address, &dispatch).await,
            }
        }
        #[cfg(feature = "sqlserver")]
        Some("sqlserver" | "mssql") => {
            let mut options: punctual_sql::sqlserver::Options = url.parse()?;
            if let Some(clock) = clock {
                options = options.clock(clock);
            }
            Ok(Arc::new(punctual_sql::sqlserver::SqlServerStore::open(options).await?))
        }
        _ => {
            // The URL may hold a password; only its scheme is repeated.
            let scheme = url.chars().take_while(|c| *c != ':').take(32).collect();
            Err(StoreError::UnknownScheme { scheme, expected: SCHEMES.join(", ") })
        }
    }
}

/// What an address says of Redis.
#[derive(Debug, Default)]
struct Dispatch {
    /// Where it is.
    address: Option<String>,
    /// The servers for locks.
    locks: Vec<String>,
    lock_jobs: bool,
}

/// The address of a store, and what it says of Redis in front.
fn parted(url: &str) -> (String, Dispatch) {
    let mut dispatch = Dispatch::default();
    let Some((address, query)) = url.split_once('?') else { return (url.to_owned(), dispatch) };
    let mut rest = Vec::new();
    for setting in query.split('&') {
        match setting.split_once('=') {
            Some(("dispatch", address)) => dispatch.address = Some(address.to_owned()),
            Some(("locks", addresses)) => dispatch.locks = addresses.split(',').map(str::to_owned).collect(),
            Some(("lock_jobs", value)) => dispatch.lock_jobs = value == "true",
            _ => rest.push(setting),
        }
    }
    let rest = rest.join("&");
    (if rest.is_empty() { address.to_owned() } else { format!("{address}?{rest}") }, dispatch)
}

/// A PostgreSQL database with Redis in front.
#[cfg(feature = "redis")]
async fn dispatched(
    mut options: punctual_sql::postgres::Options,
    address: &str,
    Dispatch { locks, lock_jobs, .. }: &Dispatch,
) -> Result<Arc<dyn Store>, StoreError> {
    let locks = locks.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
    let dispatch = punctual_redis::Options { address: address.parse()?, locks, lock_jobs: *lock_jobs };
    options.dispatched = true;
    let primary = punctual_sql::postgres::PostgresStore::open(options).await?;
    Ok(Arc::new(punctual_redis::DispatchStore::open(Arc::new(primary), dispatch).await?))
}

#[cfg(all(feature = "postgres", not(feature = "redis")))]
async fn dispatched(_: punctual_sql::postgres::Options, _: &str, _: &Dispatch) -> Result<Arc<dyn Store>, StoreError> {
    let reason = "this build has no dispatch; build it with the feature `redis`".to_owned();
    Err(StoreError::Unreachable { store: "redis".to_owned(), reason })
}
