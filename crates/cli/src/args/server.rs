//! The server to administer instead of a store, and `punctual context`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{format::Span, secret::Secret};

/// The name of the variable of an option.
pub(crate) const SERVER: &str = "PUNCTUAL_SERVER";
pub(crate) const TOKEN: &str = "PUNCTUAL_TOKEN";
pub(crate) const CA_FILE: &str = "PUNCTUAL_CA_FILE";
pub(crate) const CONTEXT: &str = "PUNCTUAL_CONTEXT";

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Administer over HTTP: URL of a server, such as https://punctual.example, instead of a store
    #[arg(long, global = true, env = SERVER, value_name = "URL", hide_env_values = true)]
    pub(crate) server: Option<String>,
    /// Token for the server; the variable and contexts hide it from other users of the machine
    #[arg(long, global = true, env = TOKEN, value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<Secret>,
    /// Certificates that may sign that of the server, a PEM file [default: those of the system]
    #[arg(long, global = true, env = CA_FILE, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Server and token that `punctual context` has saved [default: the current context, if no store is configured]
    #[arg(long, global = true, env = CONTEXT, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Timeout of a request to the server [default: 30s]
    #[arg(long, global = true, env = "PUNCTUAL_REQUEST_TIMEOUT", value_name = "DURATION")]
    pub(crate) request_timeout: Option<Span>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// Save the server of --server, with --token and --ca-file, under a name; the first one becomes the current context
    #[command(after_help = "The token is better passed in PUNCTUAL_TOKEN than in --token:\n\n  \
        PUNCTUAL_TOKEN=$(cat token) punctual context add prod --server https://punctual.example\n\n\
        The file is ~/.config/punctual/contexts.toml, readable by you only.")]
    Add {
        /// Name of the context
        name: String,
    },
    /// List contexts, without their tokens
    List,
    /// Make a context the current one: commands use it if no store and no other server is configured
    Use {
        /// Name of the context
        name: String,
    },
    /// Remove a context
    Remove {
        /// Name of the context
        name: String,
    },
}
