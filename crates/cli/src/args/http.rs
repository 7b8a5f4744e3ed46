//! Listen address, TLS and API tokens.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

use clap::{Args, Subcommand};
use punctual::Role;

use crate::format::Span;

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Listen address of the API and the dashboard; `none` disables them
    #[arg(long, env = "PUNCTUAL_LISTEN", default_value = "127.0.0.1:7878", value_name = "ADDRESS")]
    pub(crate) listen: Listen,
    /// TLS certificate, a PEM file
    #[arg(long, env = "PUNCTUAL_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// TLS private key, a PEM file
    #[arg(long, env = "PUNCTUAL_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Accept plaintext from other hosts (TLS terminates at a proxy)
    #[arg(long, env = "PUNCTUAL_INSECURE_HTTP")]
    pub(crate) insecure_http: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "For container engines: HEALTHCHECK CMD [\"punctual\", \"health\"]. Plain HTTP only.")]
pub(crate) struct Health {
    /// Base URL of the server [default: the address in PUNCTUAL_LISTEN, or http://127.0.0.1:7878]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Also require that the store accepts writes
    #[arg(long)]
    pub(crate) ready: bool,
    /// Listen address of the server
    #[arg(long, env = "PUNCTUAL_LISTEN", default_value = "127.0.0.1:7878", hide = true)]
    pub(crate) listen: Listen,
}

/// An address, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) Option<SocketAddr>);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let wrong = |_| format!("invalid address `{text}`: expected 127.0.0.1:7878, 0.0.0.0:443, [::1]:7878 or none");
        text.parse().map(|address| Self(Some(address))).map_err(wrong)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// Create a token; prints its secret, which is not shown again
    Create {
        /// Name of the token's owner or purpose; recorded with every action
        name: String,
        /// Role: read, enqueue, work or admin (all of them)
        #[arg(long = "role", value_delimiter = ',', required = true, value_name = "ROLE,…")]
        roles: Vec<Role>,
        /// Lifetime, such as 90d [default: never expires]
        #[arg(long, value_name = "DURATION")]
        expires: Option<Span>,
    },
    /// List active tokens, without their secrets
    List,
    /// Revoke a token and the sessions that were started with it
    Revoke {
        /// Token id, as `tokens list` shows it
        id: punctual::TokenId,
        /// Revoke it even if it is the last valid token with the role admin
        #[arg(long)]
        allow_last_admin: bool,
    },
    /// Open the store again: without valid tokens, servers on loopback addresses then answer everyone on the machine
    Open,
}
