//! Tokens for those who come over the network.

use std::{collections::BTreeSet, time::Duration};

use punctual_core::{Error, Invalid, Role, StoreError, Timestamp, Token, TokenId};
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

/// How a store stands to callers over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No token was ever made, or the store was opened since: servers on loopback addresses answer without one.
    Open,
    /// A token was made: callers need one, whether or not any is valid.
    Closed {
        /// How many tokens are valid.
        tokens: usize,
    },
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
        if good_for.is_some_and(|time| time.is_zero()) {
            return Err(Invalid::new("expires", "is at once; give it a longer time").into());
        }
        let expires_at = good_for.map(|time| self.punctual.store().now().after(time));
        self.add_token(name.into(), roles.into_iter().collect(), expires_at, None).await
    }

    /// Begins a session of somebody who has logged in with a token: a token of its own, which ends with that one.
    pub async fn create_session(&self, of: &Token, good_for: Duration) -> Result<CreatedToken, Error> {
        let until = self.punctual.store().now().after(good_for);
        let until = of.expires_at.map_or(until, |end| end.min(until));
        self.add_token(of.name.clone(), of.roles.clone(), Some(until), Some(of.id)).await
    }

    async fn add_token(
        &self,
        name: String,
        roles: BTreeSet<Role>,
        expires_at: Option<Timestamp>,
        session_of: Option<TokenId>,
    ) -> Result<CreatedToken, Error> {
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
            expires_at,
        };
        token.check()?;
        store.add_token(token.clone()).await?;
        Ok(CreatedToken { token, secret })
    }

    /// Active tokens, without sessions.
    pub async fn tokens(&self) -> Result<Vec<Token>, Error> {
        let (store, now) = (self.punctual.store(), self.punctual.store().now());
        let tokens = store.tokens().await?.into_iter();
        Ok(tokens.filter(|token| token.session_of.is_none() && token.is_good(now)).collect())
    }

    /// Ends a token and its sessions; says whether it was valid. The last valid token with the role admin is refused,
    /// unless `allow_last_admin`: without one, tokens are only made by those who can reach the store itself.
    pub async fn revoke_token(&self, id: TokenId, allow_last_admin: bool) -> Result<bool, Error> {
        let tokens = if allow_last_admin { Vec::new() } else { self.tokens().await? };
        let (revoked, others): (Vec<_>, Vec<_>) =
            tokens.iter().filter(|token| token.roles.contains(&Role::Admin)).partition(|token| token.id == id);
        if !revoked.is_empty() && others.is_empty() {
            return Err(Error::LastAdmin(id));
        }
        Ok(self.punctual.store().remove_token(id).await?)
    }

    /// How the store stands to callers over the network.
    pub async fn access(&self) -> Result<Access, Error> {
        let (store, now) = (self.punctual.store(), self.punctual.store().now());
        let tokens = store.tokens().await?;
        if tokens.is_empty() {
            return Ok(Access::Open);
        }
        let valid = tokens.iter().filter(|token| token.session_of.is_none() && token.is_good(now)).count();
        Ok(Access::Closed { tokens: valid })
    }

    /// Opens a store in which tokens were made: servers on loopback addresses answer without a token again, until the
    /// next one is made. Refused while a token is valid.
    pub async fn open_access(&self) -> Result<(), Error> {
        self.punctual.store().clear_tokens().await?;
        match self.access().await? {
            Access::Open => Ok(()),
            Access::Closed { tokens } => Err(Error::TokensValid(tokens)),
        }
    }
}

fn new_secret() -> Result<String, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Other(format!("the system gives no chance: {error}")))?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{PREFIX}{digits}"))
}
