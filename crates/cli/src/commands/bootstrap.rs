//! The first token, from the environment: `up` and `serve` create it in a store without tokens, which closes the store.

use anyhow::Result;
use punctual::{Error, Punctual, core::StoreError};

use crate::config::{check::bootstrap_token, environment::Environment};

/// Name of the token.
const NAME: &str = "bootstrap";

/// Creates the token that `PUNCTUAL_BOOTSTRAP_TOKEN` or the file of `PUNCTUAL_BOOTSTRAP_TOKEN_FILE` contains, unless a
/// token was created before. Waits until the store can be written: until then, no request may be answered without it.
pub(crate) async fn run(punctual: &Punctual) -> Result<()> {
    let Some(secret) = bootstrap_token(&Environment::of_process())? else { return Ok(()) };
    let admin = punctual.admin(NAME);
    let created = loop {
        match admin.create_first_token(NAME, &secret).await {
            Err(Error::Store(StoreError::ReadOnlyServer { .. })) => punctual.until_writable().await,
            created => break created?,
        }
    };
    match created {
        Some(token) => eprintln!("created the first token, {} ({NAME}), from the environment", token.id),
        None => tracing::info!("the store has tokens already: the one of the environment was not created"),
    }
    Ok(())
}
