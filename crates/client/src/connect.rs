//! From an address to a store. Of the library, only this file names engines.

use std::sync::Arc;

use punctual_core::{Error, Store, StoreError};

use crate::Punctual;

impl Punctual {
    /// Opens the store at `url`, such as `sqlite:punctual.db` or `postgres://user@host/database`, and brings its schema up to
    /// date.
    ///
    /// Redis hands out the jobs of a PostgreSQL database if the address says where it is: `postgres://…?dispatch=redis://host:6379`.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Ok(Self::new(open(url).await?))
    }
}

async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") if parted(url).1.is_some() => {
            let reason =
                "a file of SQLite needs no dispatch; Redis hands out the jobs of a postgres:// store".to_owned();
            Err(StoreError::Unreachable { store: "sqlite".to_owned(), reason })
        }
        #[cfg(feature = "sqlite")]
        Some("sqlite") => {
            let store = punctual_sql::sqlite::SqliteStore::open(url.parse()?).await?;
            Ok(Arc::new(store))
        }
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => {
            let (url, dispatch) = parted(url);
            match dispatch {
                None => Ok(Arc::new(punctual_sql::postgres::PostgresStore::open(url.parse()?).await?)),
                Some(dispatch) => dispatched(url.parse()?, &dispatch).await,
            }
        }
        _ => {
            let reason = "no engine of this build knows that kind of address; try sqlite:punctual.db".to_owned();
            // The address may hold a password; only its kind is repeated.
            let kind: String = url.chars().take_while(|c| *c != ':').take(32).collect();
            Err(StoreError::Unreachable { store: kind, reason })
        }
    }
}

/// The address of a store, and that of the dispatcher before it.
fn parted(url: &str) -> (String, Option<String>) {
    let Some((address, query)) = url.split_once('?') else { return (url.to_owned(), None) };
    let (dispatch, rest): (Vec<&str>, Vec<&str>) = query.split('&').partition(|one| one.starts_with("dispatch="));
    let rest = rest.join("&");
    let address = if rest.is_empty() { address.to_owned() } else { format!("{address}?{rest}") };
    (address, dispatch.first().and_then(|one| one.strip_prefix("dispatch=")).map(str::to_owned))
}

/// A PostgreSQL database with Redis in front.
#[cfg(feature = "redis")]
async fn dispatched(
    mut options: punctual_sql::postgres::Options,
    dispatch: &str,
) -> Result<Arc<dyn Store>, StoreError> {
    let address = dispatch.parse()?;
    options.dispatched = true;
    let ledger = punctual_sql::postgres::PostgresStore::open(options).await?;
    Ok(Arc::new(punctual_redis::DispatchStore::open(Arc::new(ledger), address).await?))
}

#[cfg(all(feature = "postgres", not(feature = "redis")))]
async fn dispatched(_: punctual_sql::postgres::Options, _: &str) -> Result<Arc<dyn Store>, StoreError> {
    let reason = "this build has no dispatch; build it with the feature `redis`".to_owned();
    Err(StoreError::Unreachable { store: "redis".to_owned(), reason })
}
