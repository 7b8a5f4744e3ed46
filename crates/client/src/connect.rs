//! From an address to a store. Of the library, only this file names engines.

use std::sync::Arc;

use punctual_core::{Error, Store, StoreError};

use crate::Punctual;

impl Punctual {
    /// Opens the store at `url`, such as `sqlite:punctual.db` or `postgres://user@host/database`, and brings its schema up to
    /// date.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Ok(Self::new(open(url).await?))
    }
}

async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => {
            let store = punctual_sql::sqlite::SqliteStore::open(url.parse()?).await?;
            Ok(Arc::new(store))
        }
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => {
            let store = punctual_sql::postgres::PostgresStore::open(url.parse()?).await?;
            Ok(Arc::new(store))
        }
        _ => {
            let reason = "no engine of this build knows that kind of address; try sqlite:punctual.db".to_owned();
            // The address may hold a password; only its kind is repeated.
            let kind: String = url.chars().take_while(|c| *c != ':').take(32).collect();
            Err(StoreError::Unreachable { store: kind, reason })
        }
    }
}
