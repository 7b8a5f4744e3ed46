//! What users rely on, on each engine: workflows, limits, unique keys, queues, notifications, alerts, explanations.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod alerts;
mod explain;
mod flow;
mod limits;
mod notifications;
mod queues;
mod unique;
