//! Alerts, from the condition to the request that a webhook receives.

mod conditions;
mod receiver;
mod requests;
mod scene;
