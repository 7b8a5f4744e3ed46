//! From a URL to a store. In the library, only this file names the engines.

use std::{pin::Pin, sync::Arc};

use punctual_core::{Create, Error, ManualClock, Store, StoreError};

use crate::Punctual;

/// The URL schemes of the engines in this build.
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
    /// `sqlserver://user:password@host/database`, and migrates its schema to this version.
    ///
    /// Redis dispatches the jobs of a PostgreSQL database if the URL names a Redis server:
    /// `postgres://…?dispatch=redis://host:6379`. With `locks=redis://a,redis://b,redis://c`, a lock needs the
    /// agreement of a majority of these independent servers; with `lock_jobs=true`, the start of a job needs it, too.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, Create::Anywhere).await
    }

    /// Opens the store at `url` as [`connect`](Self::connect) does, and creates no more than `create` allows.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use punctual_client::Punctual;
    /// use punctual_core::Create;
    /// let absent = Punctual::connect_with("sqlite:no-such-file.db", Create::Nothing).await;
    /// assert!(absent.unwrap_err().to_string().starts_with("no database at sqlite:no-such-file.db"));
    /// # });
    /// ```
    pub async fn connect_with(url: &str, create: Create) -> Result<Self, Error> {
        Ok(Self::new(open(url, create, None).await?))
    }

    /// Opens a store for tests: the store uses `clock`, which only the test advances, instead of the clock of the
    /// server or the machine.
    pub async fn connect_with_clock(url: &str, clock: ManualClock) -> Result<Self, Error> {
        Ok(Self::new(open(url, Create::Anywhere, Some(clock)).await?))
    }

    /// Checks the URL of a store without connecting: its scheme, its parameters, and the URLs of its Redis servers.
    pub fn check_url(url: &str) -> Result<(), Error> {
        Ok(check(url)?)
    }
}

type Opening<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, StoreError>> + Send + 'a>>;

/// Opens the store. Boxed, since the types of the drivers' futures would otherwise be nested in those of the callers,
/// until the compiler refuses their depth.
fn open(url: &str, create: Create, clock: Option<ManualClock>) -> Opening<'_> {
    Box::pin(open_engine(url, create, clock))
}

async fn open_engine(url: &str, create: Create, clock: Option<ManualClock>) -> Result<Arc<dyn Store>, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") if parted(url)?.1.address.is_some() => Err(no_dispatch()),
        #[cfg(feature = "sqlite")]
        Some("sqlite") => {
            let mut options: punctual_sql::sqlite::Options = url.parse()?;
            options.create = create;
            if let Some(clock) = clock {
                options = options.clock(clock);
            }
            Ok(Arc::new(punctual_sql::sqlite::SqliteStore::open(options).await?))
        }
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => {
            let (url, dispatch) = parted(url)?;
            let mut options: punctual_sql::postgres::Options = url.parse()?;
            options.create = create;
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
            let mut options = url.parse::<punctual_sql::sqlserver::Options>()?.create(create);
            if let Some(clock) = clock {
                options = options.clock(clock);
            }
            Ok(Arc::new(punctual_sql::sqlserver::SqlServerStore::open(options).await?))
        }
        _ => Err(unknown_scheme(url)),
    }
}

/// Checks a URL as [`open`] does.
fn check(url: &str) -> Result<(), StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") if parted(url)?.1.address.is_some() => Err(no_dispatch()),
        #[cfg(feature = "sqlite")]
        Some("sqlite") => url.parse::<punctual_sql::sqlite::Options>().map(drop),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => {
            let (url, dispatch) = parted(url)?;
            url.parse::<punctual_sql::postgres::Options>()?;
            dispatch.check()
        }
        #[cfg(feature = "sqlserver")]
        Some("sqlserver" | "mssql") => url.parse::<punctual_sql::sqlserver::Options>().map(drop),
        _ => Err(unknown_scheme(url)),
    }
}

fn no_dispatch() -> StoreError {
    invalid("sqlite", "dispatch is not supported by SQLite; expected a postgres:// store")
}

fn unknown_scheme(url: &str) -> StoreError {
    // The URL may contain a password; only its scheme is repeated.
    let scheme = url.chars().take_while(|c| *c != ':').take(32).collect();
    StoreError::UnknownScheme { scheme, expected: SCHEMES.join(", ") }
}

/// The Redis settings of a URL.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "redis"), allow(dead_code))]
struct Dispatch {
    /// The URL of the Redis server.
    address: Option<String>,
    /// The servers for locks.
    locks: Vec<String>,
    lock_jobs: bool,
}

#[cfg(feature = "postgres")]
impl Dispatch {
    /// Checks the URLs of the Redis servers.
    #[cfg(feature = "redis")]
    fn check(&self) -> Result<(), StoreError> {
        let mut addresses = self.address.iter().chain(&self.locks);
        addresses.try_for_each(|address| address.parse::<punctual_redis::Address>().map(drop))
    }

    #[cfg(not(feature = "redis"))]
    fn check(&self) -> Result<(), StoreError> {
        if self.address.is_some() { Err(not_in_this_build()) } else { Ok(()) }
    }
}

#[cfg(all(feature = "postgres", not(feature = "redis")))]
fn not_in_this_build() -> StoreError {
    invalid("redis", "this build does not support dispatch; build it with the feature `redis`")
}

/// Splits a URL into the URL of the store and the Redis settings.
fn parted(url: &str) -> Result<(String, Dispatch), StoreError> {
    let mut dispatch = Dispatch::default();
    let Some((address, query)) = url.split_once('?') else { return Ok((url.to_owned(), dispatch)) };
    let mut rest = Vec::new();
    for setting in query.split('&') {
        match setting.split_once('=') {
            Some(("dispatch", address)) => dispatch.address = Some(address.to_owned()),
            Some(("locks", addresses)) => dispatch.locks = addresses.split(',').map(str::to_owned).collect(),
            Some(("lock_jobs", value)) => {
                let wrong = || invalid("redis", &format!("lock_jobs: invalid value `{value}`: expected true or false"));
                dispatch.lock_jobs = value.parse().map_err(|_| wrong())?;
            }
            _ => rest.push(setting),
        }
    }
    if dispatch.address.is_none() && (dispatch.lock_jobs || !dispatch.locks.is_empty()) {
        return Err(invalid("redis", "locks and lock_jobs need dispatch, the URL of the Redis server"));
    }
    let rest = rest.join("&");
    Ok((if rest.is_empty() { address.to_owned() } else { format!("{address}?{rest}") }, dispatch))
}

fn invalid(store: &str, reason: &str) -> StoreError {
    StoreError::InvalidUrl { store: store.to_owned(), reason: reason.to_owned() }
}

/// Opens a PostgreSQL database with Redis in front.
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
    Err(not_in_this_build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_the_dispatcher_are_taken_out_of_the_url() {
        let url = "postgres://h/db?schema=jobs&dispatch=redis://r&locks=redis://a,redis://b,redis://c&lock_jobs=true";
        let (rest, dispatch) = parted(url).unwrap();
        assert_eq!(rest, "postgres://h/db?schema=jobs");
        assert_eq!((dispatch.address.as_deref(), dispatch.locks.len()), (Some("redis://r"), 3));
        assert!(dispatch.lock_jobs);
        for (settings, problem) in [
            ("dispatch=redis://r&lock_jobs=yes", "lock_jobs: invalid value `yes`: expected true or false"),
            ("locks=redis://a", "locks and lock_jobs need dispatch"),
        ] {
            let error = parted(&format!("postgres://h/db?{settings}")).unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
    }
}
