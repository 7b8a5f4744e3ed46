//! Who may do what, over the network.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Invalid, Timestamp, TokenId, check, limits};

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// See everything but raw payloads.
    Read,
    /// Enqueue jobs and submit workflows.
    Enqueue,
    /// Run jobs: claim, extend, settle.
    Work,
    /// All of it, and change what is there.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Enqueue, Self::Work, Self::Admin];

    /// Its name at every surface and in every table.
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

/// A token, without its secret: of that only a hash is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Token {
    /// Its id, which is no secret.
    pub id: TokenId,
    /// Whose it is, or what it is for.
    pub name: String,
    /// What it allows.
    pub roles: BTreeSet<Role>,
    /// What its secret hashes to.
    #[serde(skip)]
    pub hash: [u8; 32],
    /// The token that somebody has logged in with, if this is their session. It ends with that one.
    pub session_of: Option<TokenId>,
    /// Who made it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// Until when it is good, if not for good.
    pub expires_at: Option<Timestamp>,
}

impl Token {
    /// Refuses what breaks a limit, naming the field and the limit.
    pub fn check(&self) -> Result<(), Invalid> {
        check::word("name", &self.name, limits::LABEL_MAX_CHARS)?;
        if self.roles.is_empty() {
            return Err(Invalid::new(
                "roles",
                "must not be empty; expected at least one of read, enqueue, work, admin",
            ));
        }
        Ok(())
    }

    /// Whether it allows what needs that role.
    pub fn allows(&self, needed: Role) -> bool {
        self.roles.contains(&needed) || self.roles.contains(&Role::Admin)
    }

    /// Whether it is good at that time.
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|until| now < until)
    }
}

/// A request that must have its effect once, however often it is sent. What jobs it makes, their ids follow from this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// What was asked for, as a hash: the same key for something else is an error of its sender.
    pub fingerprint: [u8; 32],
    /// When it came first.
    pub at: Timestamp,
    /// Chosen by chance then.
    pub seed: u64,
}
