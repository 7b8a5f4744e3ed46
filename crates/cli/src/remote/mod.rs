//! Administers the store of a server over HTTP, by the routes that docs/http.md describes.
//!
//! | question | file |
//! |---|---|
//! | which server, with which token? | `settings` |
//! | how is a request sent, and repeated? | `http` |
//! | what does a failure mean for the user? | `failure` |
//! | which route does an operation use? | `routes` |

mod failure;
mod http;
mod routes;
mod settings;

use std::time::Instant;

use anyhow::Result;
use punctual::{
    Timestamp,
    core::{Clock, SystemClock},
};
use serde::Deserialize;

use self::http::Http;
pub(crate) use self::settings::ServerSettings;
use crate::exit::ServerErrorKind;

/// A server, and its clock.
#[derive(Debug)]
pub(crate) struct Remote {
    http: Http,
    /// An instant of this process, and the same instant by the clock of the store.
    clock: (Instant, Timestamp),
}

/// The answer of `/v1/server`, as far as it matters.
#[derive(Debug, Deserialize)]
struct ServerInfo {
    version: String,
    now: Timestamp,
}

impl Remote {
    /// Connects to a server: checks that it can be reached, that it is of the same version, and reads its clock.
    pub(crate) async fn connect(settings: ServerSettings) -> Result<Self> {
        if settings.exposes_token() {
            eprintln!("warning: the token is sent without encryption; use https://");
        }
        let (http, began) = (Http::new(settings)?, Instant::now());
        let answer = http.get(&["server"]).answer::<ServerInfo>().await;
        let took = began.elapsed();
        let clock = match answer {
            Ok(info) => {
                http.check_version(&info.version)?;
                // Never ahead of the server's clock, which refuses a time that is not past.
                (began + took, info.now)
            }
            // A token that may only enqueue cannot read the clock, and does not need it.
            Err(error) if error.kind == ServerErrorKind::Forbidden => (began + took, SystemClock.now()),
            Err(error) => return Err(error.into()),
        };
        Ok(Self { http, clock })
    }
}
