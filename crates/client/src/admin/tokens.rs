//! Tokens for those who come over the network.

use std::{collections::BTreeSet, time::Duration};

use punctual_core::{Error, Invalid, Role, StoreError, Token, TokenId};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Admin;

/// What the secret of a token begins with, so that those who look for lost secrets know it.
const PREFIX: &str = "punctual_";

/// A token with its secret, which nobody can see again.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// Its secret.
    pub secret: String,
}

/// What the secret of a token hashes to. A secret has 256 bits of chance, so that nothing slower is needed.
pub fn hash_secret(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

impl Admin {
    /// Makes a token with these roles, good for so long, or for good.
    pub async fn create_token(
        &self,
        name: impl Into<String>,
        roles: impl IntoIterator<Item = Role>,
        good_for: Option<Duration>,
    ) -> Result<CreatedToken, Error> {
        self.add_token(name.into(), roles.into_iter().collect(), good_for, None).await
    }

    /// Begins a session of somebody who has logged in with a token: a token of its own, which ends with that one.
    pub async fn create_session(&self, of: &Token, good_for: Duration) -> Result<CreatedToken, Error> {
        self.add_token(of.name.clone(), of.roles.clone(), Some(good_for), Some(of.id)).await
    }

    async fn add_token(
        &self,
        name: String,
        roles: BTreeSet<Role>,
        good_for: Option<Duration>,
        session_of: Option<TokenId>,
    ) -> Result<CreatedToken, Error> {
        if good_for.is_some_and(|time| time.is_zero()) {
            return Err(Invalid::new("expires", "is at once; give it a longer time").into());
        }
        let (store, secret) = (self.punctual.store(), new_secret()?);
        let now = store.now();
        let token = Token {
            id: TokenId::from_bits(self.punctual.ids().next(now)),
            name,
            roles,
            hash: hash_secret(&secret),
            session_of,
            created_by: self.actor.clone(),
            created_at: now,
            expires_at: good_for.map(|time| now.after(time)),
        };
        token.check()?;
        store.add_token(token.clone()).await?;
        Ok(CreatedToken { token, secret })
    }

    /// The tokens that are good, without sessions.
    pub async fn tokens(&self) -> Result<Vec<Token>, Error> {
        let (store, now) = (self.punctual.store(), self.punctual.store().now());
        let tokens = store.tokens().await?.into_iter();
        Ok(tokens.filter(|token| token.session_of.is_none() && token.is_good(now)).collect())
    }

    /// Ends a token and its sessions; says whether there was one.
    pub async fn revoke_token(&self, id: TokenId) -> Result<bool, Error> {
        Ok(self.punctual.store().remove_token(id).await?)
    }
}

fn new_secret() -> Result<String, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Other(format!("the system gives no chance: {error}")))?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{PREFIX}{digits}"))
}
