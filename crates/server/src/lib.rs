//! Punctual over HTTP.
//!
//! | question | file |
//! |---|---|
//! | what can be asked for, and by whom? | `router` |
//! | what does a request do? | `api/<noun>` |
//! | who is asking? | `auth` |
//! | how are requests read and answered? | `route`, `call` |
//! | what does an error look like? | `problem` |
//! | how are connections taken, and ended? | `listen` |
//! | what is on the pages? | `dashboard/<page>` |
//! | what do charts know of the past? | `history` |
//! | who listens, and what do they hear? | `api/stream`, `socket`, `follow` |
//! | is it well, and what has it done? | `health`, `metrics`, `meter` |

mod api;
mod app;
mod auth;
mod call;
mod dashboard;
mod files;
mod follow;
mod health;
mod history;
mod listen;
mod meter;
mod metrics;
mod openapi;
mod peer;
mod problem;
mod prompt;
mod route;
mod router;
mod service;
mod socket;
mod unread;

pub use app::RequestLimits;
pub use files::raise_file_limit;
pub use listen::{RunningServer, Server, StartError, Tls};
pub use socket::StreamLimits;

/// The OpenAPI document of the API.
pub fn openapi() -> serde_json::Value {
    openapi::document(&router::routes())
}

/// Every route of the API: its method, its path, and the role that it needs.
pub fn routes() -> Vec<(String, &'static str, punctual_core::Role)> {
    router::routes().iter().map(|route| (route.method.to_string(), route.path, route.role)).collect()
}

/// Every page of the dashboard and every form of one: its method, its path, and the role that it needs.
pub fn pages() -> Vec<(String, &'static str, punctual_core::Role)> {
    dashboard::pages().iter().map(|page| (page.method.to_string(), page.path, page.role)).collect()
}
