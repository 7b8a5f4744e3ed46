//! Where the server listens, and who may come.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

use clap::{Args, Subcommand};
use punctual::Role;

use crate::human::Span;

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Where the API and the dashboard are; `none` for nowhere
    #[arg(long, env = "PUNCTUAL_LISTEN", default_value = "127.0.0.1:7878", value_name = "ADDRESS")]
    pub(crate) listen: Listen,
    /// A certificate, to speak TLS: a PEM file
    #[arg(long, env = "PUNCTUAL_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key: a PEM file
    #[arg(long, env = "PUNCTUAL_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let other machines come without TLS: something in front speaks it
    #[arg(long, env = "PUNCTUAL_INSECURE_HTTP")]
    pub(crate) insecure_http: bool,
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
        let wrong = |_| format!("`{text}` is no address; write 127.0.0.1:7878, 0.0.0.0:443, [::1]:7878 or none");
        text.parse().map(|address| Self(Some(address))).map_err(wrong)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; prints its secret, which nobody can see again
    Create {
        /// Whose it is, or what it is for; kept with all that is done with it
        name: String,
        /// What it allows: read, enqueue, work or admin, which is all of them
        #[arg(long = "role", value_delimiter = ',', required = true, value_name = "ROLE,…")]
        roles: Vec<Role>,
        /// For how long it is good, such as 90d [default: for good]
        #[arg(long, value_name = "DURATION")]
        expires: Option<Span>,
    },
    /// List the tokens that are good, without their secrets
    List,
    /// End a token, and the sessions that were begun with it
    Revoke {
        /// Its id, as `token list` shows it
        id: punctual::TokenId,
        /// Revoke it even if it is the last valid token with the role admin
        #[arg(long)]
        allow_last_admin: bool,
    },
    /// Open the store again: without valid tokens, servers on loopback addresses then answer everyone on the machine
    Open,
}
