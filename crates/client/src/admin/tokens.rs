//! API tokens.

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

use punctual_core::{Error, Invalid, Role, StoreError, Timestamp, Token, TokenId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Admin;

/// Prefix of every token secret, so that secret scanners recognize it.
const PREFIX: &str = "punctual_";

/// Id of the token that [`Admin::create_first_token`] creates: always the same, so that of several processes that
/// start at once only one creates it.
const FIRST_TOKEN: TokenId = TokenId::from_bits(1);
/// Allowed number of characters of a secret that was chosen elsewhere.
const SECRET_CHARS: RangeInclusive<usize> = 24..=256;

/// A new token with its secret, which cannot be shown again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// Its secret.
    pub secret: String,
}

/// Whether servers on this store require a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No token was ever created, or access was opened since: servers on loopback addresses accept requests without a
    /// token.
    Open,
    /// A token was created: requests need a token, even if none is valid any more.
    Closed {
        /// Number of valid tokens.
        tokens: usize,
    },
}

/// The hash of a token's secret. A secret has 256 random bits, so that no slow hash is needed.
pub fn hash_secret(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Checks a secret that was chosen elsewhere: it must be as hard to guess as a password that no person remembers, and
/// fit into a header. The error does not contain it.
pub fn check_secret(secret: &str) -> Result<(), Invalid> {
    let is_visible = secret.bytes().all(|byte| byte.is_ascii_graphic());
    if is_visible && SECRET_CHARS.contains(&secret.len()) {
        return Ok(());
    }
    let problem = "must be 24 to 256 visible ASCII characters without spaces; \
        `openssl rand -hex 32` prints a random one";
    Err(Invalid::new("secret", problem))
}

impl Admin {
    /// Creates a token with these roles. It expires after `good_for`, or never if that is `None`.
    pub async fn create_token(
        &self,
        name: impl Into<String>,
        roles: impl IntoIterator<Item = Role>,
        good_for: Option<Duration>,
    ) -> Result<CreatedToken, Error> {
        if good_for.is_some_and(|time| time.is_zero()) {
            return Err(Invalid::new("expires", "must be longer than 0 s").into());
        }
        let expires_at = good_for.map(|time| self.punctual.store().now().after(time));
        self.add_token(name.into(), roles.into_iter().collect(), expires_at, None).await
    }

    /// Creates a token with the role admin and this secret in a store in which no token was created yet; otherwise
    /// changes nothing. [`check_secret`] tells which secrets are accepted.
    pub async fn create_first_token(&self, name: impl Into<String>, secret: &str) -> Result<Option<Token>, Error> {
        check_secret(secret)?;
        let store = self.punctual.store();
        if !store.tokens().await?.is_empty() {
            return Ok(None);
        }
        let token = Token {
            id: FIRST_TOKEN,
            name: name.into(),
            roles: BTreeSet::from([Role::Admin]),
            hash: hash_secret(secret),
            session_of: None,
            created_by: self.actor.clone(),
            created_at: store.now(),
            expires_at: None,
        };
        token.check()?;
        match store.add_token(token.clone()).await {
            Ok(()) => Ok(Some(token)),
            // Another process has just created it, or another token.
            Err(error) => {
                if store.tokens().await?.is_empty() {
                    Err(error.into())
                } else {
                    Ok(None)
                }
            }
        }
    }

    /// Creates a session for a login with a token: a token of its own, which expires or is revoked with that one.
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

    /// Returns the active tokens, without sessions.
    pub async fn tokens(&self) -> Result<Vec<Token>, Error> {
        let (store, now) = (self.punctual.store(), self.punctual.store().now());
        let tokens = store.tokens().await?.into_iter();
        Ok(tokens.filter(|token| token.session_of.is_none() && token.is_valid(now)).collect())
    }

    /// Revokes a token and its sessions; returns whether it was valid. The last valid token with the role admin is
    /// refused unless `allow_last_admin` is set: without an admin token, tokens can only be created with direct access
    /// to the store.
    pub async fn revoke_token(&self, id: TokenId, allow_last_admin: bool) -> Result<bool, Error> {
        let tokens = if allow_last_admin { Vec::new() } else { self.tokens().await? };
        let (revoked, others): (Vec<_>, Vec<_>) =
            tokens.iter().filter(|token| token.roles.contains(&Role::Admin)).partition(|token| token.id == id);
        if !revoked.is_empty() && others.is_empty() {
            return Err(Error::LastAdmin(id));
        }
        Ok(self.punctual.store().remove_token(id).await?)
    }

    /// Returns whether servers on this store require a token.
    pub async fn access(&self) -> Result<Access, Error> {
        let (store, now) = (self.punctual.store(), self.punctual.store().now());
        let tokens = store.tokens().await?;
        if tokens.is_empty() {
            return Ok(Access::Open);
        }
        let valid = tokens.iter().filter(|token| token.session_of.is_none() && token.is_valid(now)).count();
        Ok(Access::Closed { tokens: valid })
    }

    /// Opens a store in which tokens were created: servers on loopback addresses accept requests without a token again,
    /// until the next token is created. Refused while a token is valid.
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
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Other(format!("cannot get random bytes: {error}")))?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{PREFIX}{digits}"))
}
