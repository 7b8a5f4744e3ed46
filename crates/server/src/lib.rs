//! Punctual over HTTP.
//!
//! | question | file |
//! |---|---|
//! | which routes are there, and for which role? | `router` |
//! | what does a request do? | `api/<noun>` |
//! | who is asking? | `auth` |
//! | how are requests read and answered? | `route`, `call`, `unread` |
//! | what surrounds every request, and what do all share? | `service`, `app` |
//! | the OpenAPI document | `openapi` |
//! | what does an error look like? | `problem` |
//! | how are connections accepted, bounded and closed? | `listen`, `first_byte_timeout`, `peer`, `files` |
//! | what is on the pages? | `dashboard/<page>` |
//! | what do charts know of the past? | `history` |
//! | the live stream | `api/stream`, `subscriber`, `event_feed` |
//! | health and metrics | `health`, `metrics`, `counter_cache` |

mod api;
mod app;
mod auth;
mod call;
mod counter_cache;
mod dashboard;
mod event_feed;
mod files;
mod first_byte_timeout;
mod health;
mod history;
mod listen;
mod metrics;
mod openapi;
mod peer;
mod problem;
mod route;
mod router;
mod service;
mod subscriber;
mod unread;

pub use app::RequestLimits;
pub use files::raise_file_limit;
pub use listen::{RunningServer, Server, StartError, Tls};
pub use subscriber::StreamLimits;

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
