//! API tokens and their roles.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Invalid, Timestamp, TokenId, check, limits};

/// Role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read everything except raw payloads.
    Read,
    /// Enqueue jobs and submit workflows.
    Enqueue,
    /// Run jobs: claim, extend, settle.
    Work,
    /// All of the above, and all changes.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Read, Self::Enqueue, Self::Work, Self::Admin];

    /// The name in all interfaces and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Enqueue => "enqueue",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| format!("unknown role `{text}`: expected read, enqueue, work or admin"))
    }
}

/// API token, without its secret, of which only a hash is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Token {
    /// Token ID. It is not a secret.
    pub id: TokenId,
    /// Name: the owner of the token, or its purpose.
    pub name: String,
    /// Roles of the token.
    pub roles: BTreeSet<Role>,
    /// Hash of the secret.
    #[serde(skip)]
    pub hash: [u8; 32],
    /// Token that a session was started with, if this is a session. The session ends with that token.
    pub session_of: Option<TokenId>,
    /// Creator of the token.
    pub created_by: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Expiry time; null if the token never expires.
    pub expires_at: Option<Timestamp>,
}

impl Token {
    /// Rejects an invalid token; the error names the field and the limit.
    pub fn check(&self) -> Result<(), Invalid> {
        check::name("name", &self.name, limits::LABEL_MAX_CHARS)?;
        if self.roles.is_empty() {
            return Err(Invalid::new(
                "roles",
                "must not be empty; expected at least one of read, enqueue, work, admin",
            ));
        }
        Ok(())
    }

    /// Whether it allows requests that need this role.
    pub fn allows(&self, needed: Role) -> bool {
        self.roles.contains(&needed) || self.roles.contains(&Role::Admin)
    }

    /// Whether it has not expired at `now`.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|until| now < until)
    }
}

/// A request that takes effect only once, however often it is sent. The ids of the jobs it creates are derived from
/// this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// A hash of the request: the same key with a different request is an error of the client.
    pub fingerprint: [u8; 32],
    /// When it was first received.
    pub at: Timestamp,
    /// A random number that was chosen then.
    pub seed: u64,
}
