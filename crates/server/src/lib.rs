//! The HTTP server: the API, the dashboard, health and metrics.
//!
//! | question | file |
//! |---|---|
//! | which routes exist, and which role do they need? | `router` |
//! | what does a request do? | `api/<noun>` |
//! | how are callers authenticated? | `auth` |
//! | how are requests read and answered? | `route`, `request`, `unread` |
//! | which layers and which state do all requests share? | `service`, `app` |
//! | how is the OpenAPI document generated? | `openapi` |
//! | what does an error look like? | `problem` |
//! | how are connections accepted, bounded and closed? | `listen`, `first_byte_timeout`, `peer`, `files` |
//! | what do the pages of the dashboard show? | `dashboard/<page>` |
//! | where do charts get their data? | `history`, filled by `sampler` |
//! | how does the live stream work? | `api/stream`, `stream_protocol`, `subscriber`, `event_feed` |
//! | what do probes and `/metrics` answer? | `health`, `readiness`, `metrics`, `counter_cache` |

mod api;
mod app;
mod auth;
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
mod readiness;
mod request;
mod route;
mod router;
mod sampler;
mod service;
mod stream_protocol;
mod subscriber;
mod unread;

pub use app::{RequestLimits, StreamLimits};
pub use files::raise_file_limit;
pub use listen::{BoundAddress, RunningServer, Server, StartError, Tls};

/// The OpenAPI document of the API.
pub fn openapi() -> serde_json::Value {
    openapi::document(&router::routes())
}

/// All routes of the API: method, path, and required role.
pub fn routes() -> Vec<(String, &'static str, punctual_core::Role)> {
    router::routes().iter().map(|route| (route.method.to_string(), route.path, route.role)).collect()
}

/// All pages and forms of the dashboard: method, path, and required role.
pub fn pages() -> Vec<(String, &'static str, punctual_core::Role)> {
    dashboard::pages().iter().map(|page| (page.method.to_string(), page.path, page.role)).collect()
}
