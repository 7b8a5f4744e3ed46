//! Explains why a job is not running, and what to do about it.

mod facts;
mod limits;
mod reason;
mod status;
mod words;
mod workers;

pub use self::{
    facts::{Facts, Held},
    reason::{Cause, Explanation, Reason},
    workers::handler_advice,
};
use crate::Status;

/// Explains the current status of a job.
pub fn explain(facts: &Facts) -> Explanation {
    let job = &facts.job;
    let mut reasons = match job.status {
        Status::Waiting => vec![facts.waits()],
        Status::Scheduled => vec![facts.not_due()],
        Status::Failed | Status::Retrying => vec![facts.backs_off()],
        Status::Queued => Vec::new(),
        Status::Processing => vec![facts.runs()],
        Status::Succeeded | Status::Dead | Status::Cancelled | Status::Deleted => vec![facts.ended()],
    };
    if job.status.is_active() && job.status != Status::Processing {
        reasons.extend(facts.paused());
        reasons.extend(facts.unreadable());
        reasons.extend(facts.no_worker());
    }
    reasons.extend(facts.clock_stepped());
    if job.status == Status::Queued {
        reasons.extend(facts.limits());
        if reasons.is_empty() {
            reasons.push(if job.is_suspect() { facts.suspected() } else { facts.busy() });
        }
    }
    Explanation { job: job.id, status: job.status, reasons }
}
